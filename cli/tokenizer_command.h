// The parts of `tril tokenizer`: each takes the words after its name.
#pragma once

#include <string>

#include "cli/command.h"

namespace tril::cli {

inline constexpr const char* kPatternHelp =
    "split pattern of a file that does not say it (.tiktoken, vocab.json): gpt2, cl100k, o200k, llama3, "
    "qwen2, ...";

std::string read_text(const std::string& file);  // "-": standard input

int tokenizer_train(const Arguments&);
int tokenizer_encode(const Arguments&);
int tokenizer_decode(const Arguments&);
int tokenizer_info(const Arguments&);
int tokenizer_compare(const Arguments&);
int tokenizer_export(const Arguments&);

}  // namespace tril::cli
