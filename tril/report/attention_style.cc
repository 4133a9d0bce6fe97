#include "tril/report/attention_page.h"

namespace tril {

const char* const kAttentionStyle = R"css(
#text { white-space: pre-wrap; overflow-wrap: anywhere; font-size: 17px; line-height: 1.75; max-height: 60vh;
  overflow: auto; }
.token { border-radius: 3px; cursor: pointer; padding: 2px 0; box-shadow: inset -1px 0 var(--line); }
.token.query { box-shadow: inset 0 0 0 2px var(--mark); }
.token.later { color: var(--soft); opacity: .6; }

#grid { display: grid; gap: 5px; align-items: center; }
#grid .name { font-size: 12px; color: var(--soft); text-align: center; }
#grid button { padding: 2px; line-height: 0; border-radius: 4px; }
canvas { width: 100%; aspect-ratio: 1; image-rendering: pixelated; }
#large { position: relative; line-height: 0; cursor: crosshair; border: 1px solid var(--line); max-width: 80vh;
  margin: 0 auto; touch-action: manipulation; }
#row { position: absolute; left: 0; width: 100%; outline: 1px solid var(--mark); pointer-events: none; }

#scale { display: inline-block; width: 180px; height: 12px; border: 1px solid var(--line); border-radius: 3px; }
.ticks { position: relative; width: 180px; height: 16px; font-size: 11px; color: var(--soft);
  white-space: nowrap; margin-right: 14px; }
.ticks span { position: absolute; transform: translateX(-50%); }
)css";

}  // namespace tril
