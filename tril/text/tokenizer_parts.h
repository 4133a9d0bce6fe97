// What a tokenizer consists of, and how files of other programs become it: shared by tokenizer.cc and the
// readers and writers of formats.
#pragma once

#include <string>
#include <unordered_set>
#include <vector>

#include "tril/text/bpe.h"
#include "tril/text/tokenizer.h"

namespace tril {

class GgufHeader;

// Where SentencePiece adds the space that a text begins with.
enum class SpacePrefix {
  kNone,
  kAlways,            // before each stretch of text between special tokens, unless it is empty
  kUnlessSpace,       // the same, unless it begins with a space already
  kFirstUnlessSpace,  // the same, before the first stretch only
};

struct TokenizerParts {
  Tokenizer::Kind kind = Tokenizer::Kind::kByte;
  // Bytes of each id; empty for special tokens and for ids that stand for nothing (`undefined()`).
  std::vector<std::string> tokens;
  std::vector<SpecialToken> specials;  // in the order of their ids
  std::vector<Merge> merges;           // kBpe; kSentencePiece without scores
  // kBpe: the patterns of the pre-tokenizer, stage after stage (split_patterns.h).
  std::vector<std::string> splits;
  bool whole_pieces = false;  // kBpe: a piece that is a token is that token, whatever the merges make of it
  bool nfc = false;           // text is brought into Unicode's normalization form C first
  int32_t begin_of_text = -1, end_of_text = -1;

  // kSentencePiece
  std::vector<float> scores;   // by id: of two neighbours the pair with the highest is joined first
  std::vector<bool> joinable;  // by id: a token that text can become (not a byte, not unreachable)
  ByteIds byte_tokens{};       // the tokens of bytes that have no character
  int32_t unknown = -1;        // kept for writing; text needs none, since every byte has a token
  SpacePrefix prefix = SpacePrefix::kNone;
  bool strips_space = false;  // decoding drops one space at the start
  bool metaspace = false;     // U+2581 in the text is a space
};

// Which pairs a list of merges has named so far.
class NamedPairs {
 public:
  // False: the merge's pair was named before.
  bool add(const Merge& merge) {
    return pairs_.insert(static_cast<uint64_t>(merge.left) << 32 | static_cast<uint32_t>(merge.right)).second;
  }

 private:
  std::unordered_set<uint64_t> pairs_;
};

// Ids between others that stand for nothing: cl100k has 16, o200k 19.
inline constexpr int64_t kMostGaps = 256;

// Sets end_of_text and begin_of_text by the names that known models give them, unless they are set.
void find_text_ends(TokenizerParts& parts);

// The readers throw kData naming `where`, the place in it, and why.
TokenizerParts parse_tokenizer_json(std::string_view json, const std::string& where);
std::string format_tokenizer_json(const TokenizerParts& parts);

// GPT-2's two files. `added` is an added_tokens.json, or empty.
TokenizerParts parse_vocab_and_merges(std::string_view vocab, std::string_view merges, std::string_view added,
                                      const std::string& where);
std::string format_vocab(const TokenizerParts& parts);
std::string format_merges(const TokenizerParts& parts);

// Lines of base64(bytes) and rank; without splits and special tokens, which are not in the file.
TokenizerParts parse_tiktoken(std::string_view text, const std::string& where);
std::string format_tiktoken(const TokenizerParts& parts);

// llama2.c: u32 longest token | for each token f32 score, i32 length, bytes.
TokenizerParts parse_llama2_tokenizer(std::string_view bytes, const std::string& where);
std::string format_llama2_tokenizer(const TokenizerParts& parts);

// The fields tokenizer.ggml.* of a GGUF file.
TokenizerParts parse_gguf_tokenizer(std::string_view bytes, const std::string& where);
std::string format_gguf_tokenizer(const TokenizerParts& parts);
// Adds the fields of the tokenizer of a model of at least `rows` ids.
void add_gguf_tokenizer(const TokenizerParts& parts, int64_t rows, GgufHeader& header);
bool gguf_knows_pattern(std::string_view pattern);  // a name of split_patterns.h

// kSentencePiece: all pairs of joinable tokens that make a third, the highest score first. Throws kUse if two
// tokens share a score, so that no order of merges says the same.
std::vector<Merge> merges_of_scores(const TokenizerParts& parts);

// kBpe: merges of tokens that are numbered by rank: each token is made of the two that ranks below its own
// leave. Throws kData naming a token that ranks do not make of two.
std::vector<Merge> merges_of_ranks(const std::vector<std::string>& tokens, const std::string& where);

}  // namespace tril
