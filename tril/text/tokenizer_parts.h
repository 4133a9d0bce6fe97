// What a tokenizer consists of, shared by tokenizer.cc and tokenizer_json.cc.
#pragma once

#include <string>
#include <vector>

#include "tril/text/bpe.h"
#include "tril/text/tokenizer.h"

namespace tril {

struct SpecialToken {
  int32_t id = 0;
  std::string content;
};

struct TokenizerParts {
  Tokenizer::Kind kind = Tokenizer::Kind::kByte;
  std::vector<std::string> tokens;     // bytes of each id; empty for special tokens
  std::vector<SpecialToken> specials;  // ids in `tokens` that stand for no text, in order
  std::vector<Merge> merges;           // kBpe
};

// tokenizer.json; throws kData naming `where`, the key, and why.
TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& where);
std::string format_tokenizer_json(const TokenizerParts& parts);

}  // namespace tril
