// What every page has in common: it fetches nothing, opens anywhere, and looks the same.
#pragma once

namespace tril {

extern const char* const kPageHead;   // from the first line of the file to the title, with the page's policy
extern const char* const kPageStyle;  // CSS: colours, type, sections, buttons, tooltip

}  // namespace tril
