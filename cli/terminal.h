// What standard output leads to.
#pragma once

#include <cstdint>

namespace tril::cli {

// A terminal that can rewrite its line: not a file, a pipe, or TERM=dumb.
bool output_is_terminal();
int64_t terminal_columns();  // of a terminal; 80 elsewhere
bool locale_is_utf8();       // as LC_ALL, LC_CTYPE or LANG say

}  // namespace tril::cli
