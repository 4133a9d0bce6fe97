#include "tril/report/attention_page.h"

namespace tril {

const char* const kAttentionBody = R"html(
<p>Point at a token to see which earlier ones it looks at. Click or tap holds it, so that pointing at another
tells that one's weight; again, or Escape, lets go. Arrow keys move.</p>
</section>
<section>
<div class="bar"><h2><span class="which"></span>, enlarged</h2>
<div><div id="scale"></div><div class="ticks"><span style="left:0">0</span><span style="left:31.6%">10 %</span>
<span style="left:70.7%">50 %</span><span style="left:100%">100 %</span></div></div></div>
<div id="large"><canvas></canvas><div id="row" hidden></div></div>
<p>Row: the token that looks; column: the token looked at; both from the first to the last. Colour grows with
the square root of the weight, so that small ones show.</p>
</section>
</div>
<section>
<div class="bar"><h2>All heads</h2><button id="mean" aria-pressed="false">mean of all heads</button></div>
<div id="grid"></div>
<p>A row for each layer, a column for each head. Click one to see it in the text. Large maps are shown here with
the strongest weight of each small square.</p>
</section>
</main>
<div class="tip" id="tip" role="status" hidden></div>
)html";

}  // namespace tril
