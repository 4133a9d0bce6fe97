// Texts that need not fit into memory become ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tril/text/tokenizer.h"

namespace tril {

// Encodes a text that arrives in blocks: together the ids are those of Tokenizer::encode, or with control
// tokens of encode_with_specials, of the whole text, wherever the blocks end. Held back is what later text
// may change: a word or two, and as many bytes as the longest special token has. Without a known pattern that
// splits words, or with SentencePiece's tokens that cross from a word into a space, it is all text up to the
// next special token. For one thread at a time; the tokenizer must outlive it.
class TokenizerStream {
 public:
  // `controls`: control tokens that are spelled out become their ids; else they are text, and counted.
  TokenizerStream(const Tokenizer& tokenizer, bool controls);
  ~TokenizerStream();

  // Both append. Throw as encode() does; a place that they name is one in the whole text.
  void push(std::string_view block, std::vector<int32_t>& out);
  void finish(std::vector<int32_t>& out);  // then a new text may begin

  int64_t control_spellings() const;  // taken for text since the stream was made

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tril
