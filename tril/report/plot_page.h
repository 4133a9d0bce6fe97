// The parts of the page of runs that do not depend on them.
#pragma once

namespace tril {

extern const char* const kPlotStyle;   // CSS
extern const char* const kPlotBody;    // HTML between the title and the table of runs
extern const char* const kPlotScript;  // JavaScript

}  // namespace tril
