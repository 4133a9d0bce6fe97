#include "cli/prompt.h"

#include <cstdio>

#include "tril/base/error.h"

namespace tril::cli {

std::vector<int32_t> prompt_tokens(const Tokenizer& tokenizer, std::string_view prompt) {
  if (!prompt.empty()) {
    std::vector<int32_t> tokens = tokenizer.encode(prompt);
    if (!tokens.empty()) return tokens;
  }
  if (tokenizer.end_of_text() >= 0) return {tokenizer.end_of_text()};
  try {
    return tokenizer.encode("\n");
  } catch (const Error&) {  // a character tokenizer of a text without line breaks
    return {0};
  }
}

std::string read_standard_input() {
  std::string text;
  char buffer[1 << 16];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, stdin)) > 0;) text.append(buffer, got);
  check_data(std::ferror(stdin) == 0, "standard input cannot be read");
  return text;
}

}  // namespace tril::cli
