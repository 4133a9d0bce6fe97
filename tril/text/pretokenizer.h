// The first step of byte-level BPE: text is cut into pieces (words with the space before them, numbers,
// punctuation, white space) by GPT-2's pattern; merges never cross a cut.
#pragma once

#include <string_view>

#include "tril/base/function_ref.h"

namespace tril {

// Calls `piece` for each piece, in order; together they are the text. Bytes that are not valid UTF-8 become
// pieces of their own. Thread-safe.
void split_pieces(std::string_view text, FunctionRef<void(std::string_view)> piece);

// The same by the pattern alone, without the shortcut for ASCII; `text` must be valid UTF-8.
void split_pieces_by_pattern(std::string_view text, FunctionRef<void(std::string_view)> piece);

}  // namespace tril
