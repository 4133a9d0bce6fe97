// What a tokenizer works with once it is made: shared by tokenizer.cc and tokenizer_stream.cc.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tril/text/bpe.h"
#include "tril/text/sentencepiece.h"
#include "tril/text/special_tokens.h"
#include "tril/text/tokenizer.h"
#include "tril/text/tokenizer_parts.h"

namespace tril {

struct Tokenizer::Impl {
  TokenizerParts parts;
  ByteIds byte_ids{};                   // kByte, kBpe
  std::string lacking;                  // kBpe: bytes without a token
  std::optional<BpeModel> bpe;          // kBpe
  std::vector<int32_t> code_point_ids;  // kCharacter: -1 where there is none
  std::unique_ptr<SentencePieceEncoder> sentencepiece;
  SpecialFinder plain_specials;  // found in every text
  SpecialFinder controls;
  std::vector<const SpecialToken*> special;  // by id; null: not special

  explicit Impl(TokenizerParts from);

  // Merges make every token of its bytes, as in the published ones: whole pieces change nothing.
  bool reachable() const;
  void encode(const SpecialFinder& finder, std::string_view text, std::vector<int32_t>& out) const;
  // Throws kData for a byte without a token; `offset` as below. Only for kBpe.
  void check_bytes(std::string_view text, int64_t offset) const;
  void encode_bytes(std::string_view text, std::vector<int32_t>& out) const;
  // `offset`: where in the whole text this begins, for messages.
  void encode_characters(std::string_view text, int64_t offset, std::vector<int32_t>& out) const;

 private:
  void find_lacking_bytes();
  void index(std::string_view token, int32_t id);
  std::vector<std::string> plain_tokens() const;
  void encode_stretch(std::string_view text, size_t offset, std::vector<int32_t>& out) const;
};

}  // namespace tril
