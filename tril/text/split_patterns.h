// The pre-tokenizers of published tokenizers, as patterns one after another: each cuts every piece of the one
// before it into its matches and what lies between them. Most are one pattern, and have a name.
//
// Patterns are in the dialect in which Hugging Face's tokenizers reads them (Oniguruma's), limited to what
// means the same in PCRE2, which runs those that have no code of their own.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tril/text/pretokenizer.h"

namespace tril {

// GPT-2's pattern, the one that ByteLevel with use_regex stands for.
extern const std::string_view kGpt2Split;
// Digits one by one.
inline constexpr std::string_view kDigitSplit = "\\p{N}";

// gpt2, cl100k, llama3, o200k, qwen2, digits (each digit by itself, then gpt2: SmolLM, StarCoder),
// deepseek-llm, deepseek-coder, deepseek-v3, none.
std::vector<std::string> split_names();
std::optional<std::vector<std::string>> splits_of_name(std::string_view name);
std::string name_of_splits(const std::vector<std::string>& splits);  // "own" if it has none

// Nothing, or the part of a pattern that may mean another thing to another program.
std::optional<std::string> split_pattern_fault(std::string_view pattern);

// Throws kData naming a pattern that cannot be used, and why.
Pretokenizer pretokenizer_of(const std::vector<std::string>& splits);

}  // namespace tril
