// Byte-pair encoding by scores over characters (SentencePiece: Kudo, Richardson, "SentencePiece: A simple and
// language independent subword tokenizer and detokenizer", EMNLP 2018): of all neighbours that make a token
// the pair whose token has the highest score is joined, the leftmost among equals, until none is left. A
// character without a token becomes the tokens of its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tril {

struct TokenizerParts;

class SentencePieceEncoder {
 public:
  explicit SentencePieceEncoder(const TokenizerParts& parts);

  // Appends the ids of a stretch of text between special tokens; `first`: nothing stands before it.
  // Thread-safe.
  void encode(std::string_view text, bool first, std::vector<int32_t>& out) const;
  // A stretch in parts: where a part of it may end, 0: nowhere in this text; and what follows such a cut.
  size_t last_safe_cut(std::string_view text) const;
  void encode_rest(std::string_view text, std::vector<int32_t>& out) const;

 private:
  struct Join {
    int32_t rank = INT32_MAX, result = -1;
  };
  struct Symbol {
    int32_t id;
    uint32_t rank;  // of the pair with the next symbol
    uint32_t previous, next;
  };
  class Words;

  static uint64_t pair(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  bool has_prefix(std::string_view text, bool first) const;
  void encode_prepared(std::string_view text, std::vector<int32_t>& out) const;
  void encode_word(std::string_view word, std::vector<Symbol>& symbols, std::vector<int32_t>& out) const;
  void start_symbols(std::string_view word, std::vector<Symbol>& symbols) const;
  uint32_t rank_of(const std::vector<Symbol>& symbols, uint32_t at) const;

  const TokenizerParts& parts_;
  std::unordered_map<char32_t, int32_t> characters_;
  std::unordered_map<uint64_t, Join> joins_;
  bool words_are_apart_ = true;  // no token goes from a character over into a space
};

}  // namespace tril
