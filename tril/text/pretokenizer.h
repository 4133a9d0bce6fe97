// The first step of byte-level BPE: text is cut into pieces (words with the space before them, numbers,
// punctuation, white space); merges never cross a cut.
//
// A pre-tokenizer is one pattern, or several steps, each of which cuts the pieces of the one before further.
// What a pattern does not match is a piece as well, so the pieces always make the text again. Known patterns
// are cut by code of our own with the classes of Unicode 16; a pattern of the user's own runs in PCRE2.
// Bytes that are not valid UTF-8 are pieces of their own, and text ends before them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/function_ref.h"

namespace tril {

enum class SplitPattern : uint8_t {
  kGpt2,    // GPT-2, r50k, p50k
  kCl100k,  // cl100k as tiktoken has it: white space at the end of the text is one piece
  kO200k,   // o200k
  kLlama3,  // Llama-3: cl100k as published first
  kQwen2,   // Llama-3's with digits one by one
  kDigits,  // each \p{N} is a piece, what is between them too: a first step (SmolLM, StarCoder)
  kNone,    // the whole text is one piece
  kOwn      // a regular expression of the user's
};

struct SplitStep {
  SplitPattern pattern = SplitPattern::kGpt2;
  std::string own;  // the expression of kOwn, in PCRE2's syntax
  bool operator==(const SplitStep&) const = default;
};

// Pieces next to each other, many at a time: piece i is [bounds[i], bounds[i + 1]) from `begin`.
struct PieceBatch {
  const char* begin = nullptr;
  std::span<const uint32_t> bounds;
  size_t size() const { return bounds.size() - 1; }
};

// Cheap to copy. Const members may be called from several threads at once.
class Pretokenizer {
 public:
  Pretokenizer(SplitPattern pattern = SplitPattern::kGpt2);  // NOLINT: a pattern is a pre-tokenizer
  // Throws kUse for an expression that PCRE2 refuses, with its reason and place, and for more than 16 steps.
  explicit Pretokenizer(std::vector<SplitStep> steps);

  // Calls `piece` for each piece, in order. Throws kData where an own pattern needs too much to match, kUse
  // for a piece of 4 GiB.
  void split(std::string_view text, FunctionRef<void(std::string_view)> piece) const;
  // The same, faster.
  void split_batches(std::string_view text, FunctionRef<void(const PieceBatch&)> batch) const;
  // The largest place, at least 1, at which the text may be cut so that both parts are split as the whole
  // would be, whatever follows it; 0 if there is none. Own patterns and kNone cannot be cut.
  size_t last_safe_cut(std::string_view text) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tril
