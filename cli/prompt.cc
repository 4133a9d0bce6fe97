#include "cli/prompt.h"

#include "tril/base/error.h"

namespace tril::cli {

std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt, bool specials) {
  std::vector<int32_t> tokens;
  if (tokenizer.begin_of_text() >= 0) tokens.push_back(tokenizer.begin_of_text());
  if (specials) {
    const std::vector<int32_t> more = tokenizer.encode_with_specials(prompt);
    // One that is spelled out in front stands for the tokenizer's own.
    const bool begins = !more.empty() && more.front() == tokenizer.begin_of_text();
    tokens.insert(tokens.end(), more.begin() + (begins ? 1 : 0), more.end());
  } else {
    tokenizer.encode(prompt, tokens);
  }
  if (!tokens.empty()) return tokens;
  if (tokenizer.end_of_text() >= 0) return {tokenizer.end_of_text()};
  try {
    return tokenizer.encode("\n");
  } catch (const Error&) {  // a character tokenizer of a text without line breaks
    return {0};
  }
}

}  // namespace tril::cli
