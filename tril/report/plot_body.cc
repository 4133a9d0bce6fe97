#include "tril/report/plot_page.h"

namespace tril {

const char* const kPlotBody = R"html(<section>
<div class="bar" id="controls">
<label>show <select id="quantity"></select></label>
<label>over <select id="axis"><option value="step">steps</option><option value="tokens">tokens</option>
<option value="seconds">time of training</option></select></label>
<label><input type="checkbox" id="logarithmic"> logarithmic</label>
<label>smoothing <input type="range" id="smooth" min="0" max="0.999" step="0.001"> <output id="weight"></output></label>
<button id="whole" hidden>show all</button>
</div>
<noscript><p>This page draws with JavaScript, which is off here.</p></noscript>
<svg id="chart" role="img" aria-label="curves of the runs"></svg>
<p>Line: training. Dashed, with points: validation. Point at the chart for values; drag across it to enlarge a
part.</p>
</section>
<section><div class="table"><table><thead>
<tr><th rowspan="2">run</th><th rowspan="2">steps</th><th rowspan="2">tokens</th><th rowspan="2">seconds</th>
<th colspan="3">training loss, smoothed</th><th colspan="3">validation loss</th></tr>
<tr><th>last</th><th>lowest</th><th>at step</th><th>last</th><th>lowest</th><th>at step</th></tr>
</thead><tbody id="runs">
)html";

}  // namespace tril
