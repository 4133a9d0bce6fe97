#include "tril/report/page.h"

namespace tril {

const char* const kPageHead =
    "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    // Nothing may be fetched, whatever a text holds.
    "<meta http-equiv=\"Content-Security-Policy\" "
    "content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n";

const char* const kPageStyle = R"css(
:root {
  color-scheme: light dark;
  --paper: #f6f5f2; --card: #ffffff; --ink: #1f2328; --soft: #646b75; --line: #dcdfe4;
  --mark: #1c4f9c;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #14161a; --card: #1c1f25; --ink: #e8e9ec; --soft: #9aa2ad; --line: #363b44;
    --mark: #8ab8ff;
  }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1500px; padding: 20px; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
header { margin-bottom: 14px; }
h1 { margin: 0; font-size: 21px; font-weight: 650; overflow-wrap: anywhere; }
h2 { margin: 0 0 8px; font-size: 14px; font-weight: 650; }
p { margin: 4px 0; color: var(--soft); }
p, .tip { font-size: 13px; }
main { display: grid; gap: 16px; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); align-items: start; }
.column { display: grid; gap: 16px; }
@media (max-width: 900px) { main { grid-template-columns: minmax(0, 1fr); } body { padding: 12px; } }
section { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px; }
.bar { display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: center; justify-content: space-between;
  margin-bottom: 8px; }
.bar h2 { margin: 0; }

button { font: inherit; font-size: 13px; color: inherit; background: none; border: 1px solid var(--line);
  border-radius: 6px; padding: 2px 10px; cursor: pointer; }
button[aria-pressed=true] { border-color: var(--mark); box-shadow: inset 0 0 0 1px var(--mark); }
:focus-visible { outline: 2px solid var(--mark); outline-offset: 1px; }

.tip { position: fixed; z-index: 1; max-width: min(340px, 90vw); padding: 8px 10px; border-radius: 8px;
  background: var(--ink); color: var(--card); box-shadow: 0 3px 14px rgba(0, 0, 0, .3); pointer-events: none; }
.tip div { display: flex; justify-content: space-between; gap: 18px; }
.tip span { min-width: 0; white-space: pre; overflow: hidden; text-overflow: ellipsis; }
.tip b { font-variant-numeric: tabular-nums; }
)css";

}  // namespace tril
