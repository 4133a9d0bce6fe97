#include "cli/prompt.h"

#include "tril/base/error.h"

namespace tril::cli {

std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt) {
  std::vector<int32_t> tokens;
  if (tokenizer.begin_of_text() >= 0) tokens.push_back(tokenizer.begin_of_text());
  tokenizer.encode(prompt, tokens);
  if (!tokens.empty()) return tokens;
  if (tokenizer.end_of_text() >= 0) return {tokenizer.end_of_text()};
  try {
    return tokenizer.encode("\n");
  } catch (const Error&) {  // a character tokenizer of a text without line breaks
    return {0};
  }
}

}  // namespace tril::cli
