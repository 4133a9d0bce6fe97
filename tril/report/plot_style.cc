#include "tril/report/plot_page.h"

namespace tril {

// The colours of runs are told apart by colour-blind people too (Okabe and Ito, jfly.uni-koeln.de/color).
const char* const kPlotStyle = R"css(
:root { --run0: #0072b2; --run1: #d55e00; --run2: #009e73; --run3: #cc79a7; --run4: #b28600; --run5: #56b4e9;
  --run6: #7f3fbf; --run7: #555555; }
@media (prefers-color-scheme: dark) {
  :root { --run0: #4aa8e0; --run1: #ff8a3d; --run2: #2fc79b; --run3: #e79fc9; --run4: #e6b422; --run5: #9bd4f5;
    --run6: #b48cf0; --run7: #c0c0c0; }
}
main { grid-template-columns: minmax(0, 1fr); }
#controls { justify-content: flex-start; gap: 8px 24px; }
#controls label { display: inline-flex; gap: 6px; align-items: center; font-size: 13px; }
#controls output { min-width: 3em; font-variant-numeric: tabular-nums; }
select { font: inherit; font-size: 13px; color: inherit; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; padding: 2px 6px; }
#chart { display: block; width: 100%; height: min(60vh, 560px); touch-action: pan-y; cursor: crosshair;
  user-select: none; }
#chart text { fill: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
#chart .grid { stroke: var(--line); }
#chart .frame { fill: none; stroke: var(--soft); }
#chart .curve { fill: none; stroke-width: 1.6; stroke-linejoin: round; }
#chart .validation { stroke-dasharray: 5 3; }
#chart .cursor { stroke: var(--soft); stroke-dasharray: 2 2; }
#chart .zoom { fill: var(--mark); opacity: .15; }
.table { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; width: 100%; }
th, td { padding: 3px 10px; text-align: right; border-bottom: 1px solid var(--line); font-weight: 400; }
thead th { color: var(--soft); vertical-align: bottom; }
tbody th, th[rowspan]:first-child { text-align: left; overflow-wrap: anywhere; }
.key { display: inline-block; width: 18px; height: 4px; border-radius: 2px; vertical-align: middle;
  background: var(--soft); }
)css";

}  // namespace tril
