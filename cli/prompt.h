// Where generation starts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tril/text/tokenizer.h"

namespace tril::cli {

// The tokens of a prompt, begin-of-text first if the tokenizer has it, as texts in training do. For an empty
// one without it: end-of-text if the tokenizer has it, else a line break if it has that, else the first id.
// `specials`: control tokens spelled out in the prompt become their ids.
std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt,
                                   bool specials = false);

}  // namespace tril::cli
