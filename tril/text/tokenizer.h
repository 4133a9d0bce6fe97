// Tokenizers: text to ids and back. Byte-level BPE (Sennrich et al. 2016; bytes and split patterns as in
// GPT-2, Radford et al. 2019, and its successors), BPE by scores over characters with bytes to fall back on
// (SentencePiece, Kudo and Richardson 2018), single characters, or raw bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/files.h"
#include "tril/base/function_ref.h"
#include "tril/base/parallel.h"

namespace tril {

class BpeTrainer;
class GgufHeader;

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// A token with a spelling of its own, found in the text as it is written before anything else.
struct SpecialToken {
  int32_t id = 0;
  std::string content;
  // A control token stands for no text and is made of text only where the caller allows it. One that is not
  // (Hugging Face: "special": false) is text, and found in every text.
  bool control = true;
};

enum class TokenizerFormat {
  kTokenizerJson,   // tokenizer.json of Hugging Face's tokenizers
  kVocabAndMerges,  // a folder with vocab.json and merges.txt, as GPT-2's
  kTiktoken,        // base64 and rank, a line a token
  kLlama2,          // tokenizer.bin of llama2.c
  kGguf,            // a GGUF file; written: without tensors
};

// How a byte-level BPE is learned.
struct BpeRecipe {
  int64_t vocabulary = 0;        // ids: 256 bytes, at most as many merges as fit, and the special tokens last
  int64_t min_count = 2;         // of a pair that is merged
  std::string pattern = "gpt2";  // a name of split_patterns.h, or a regular expression
  std::vector<std::string> specials = {std::string(kEndOfText)};
};

// Const members may be called from several threads at once.
class Tokenizer {
 public:
  enum class Kind { kBpe, kCharacter, kByte, kSentencePiece };

  // Trains merges until `vocabulary` ids exist (256 bytes, merges, and end-of-text last) or no pair occurs
  // twice. Ties are broken by the smaller (left, right) pair of ids: the same tokenizer on every machine.
  static Tokenizer train_bpe(std::span<const std::string_view> texts, int64_t vocabulary);
  // From texts of any size: `feed` hands them to the trainer (bpe_train.h). Throws kUse for a vocabulary too
  // small, a pattern that is unknown or cannot be used, special tokens that are empty or there twice.
  static Tokenizer train_bpe(const BpeRecipe& recipe, Executor& executor,
                             FunctionRef<void(BpeTrainer&)> feed);
  // One id per distinct character (code point), in code point order. No end-of-text unless
  // `with_end_of_text`.
  static Tokenizer characters(std::span<const std::string_view> texts, bool with_end_of_text);
  static Tokenizer bytes(bool with_end_of_text);

  // Any of the formats, told by its content; or a folder, in which tokenizer.json, vocab.json, tokenizer.bin,
  // or the only file of a known ending is taken, in this order. `pattern` (a name of split_patterns.h) is for
  // files that do not name theirs (.tiktoken, vocab.json, GGUF without tokenizer.ggml.pre); empty: that of
  // the file's name. Throws kData with the reason for what it cannot express exactly.
  static Tokenizer load(const Path& path, std::string_view pattern = {});
  void save(const Path& path) const;  // tokenizer.json
  // Throws kUse with the reason if the format cannot say what this tokenizer does. kVocabAndMerges: `path` is
  // a folder, made if it is missing.
  void export_to(const Path& path, TokenizerFormat format) const;
  // Adds the fields of a model's GGUF file whose table of tokens has `rows`; ids beyond the vocabulary stand
  // for nothing. Throws as export_to(kGguf).
  void add_to(GgufHeader& header, int64_t rows) const;

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  Kind kind() const;
  std::string_view kind_name() const;  // "bpe", "char", "byte", "sentencepiece"
  std::string pattern() const;         // name of the split pattern, "own" for another; "none" without one
  int64_t vocabulary() const;          // number of ids
  int32_t end_of_text() const;         // -1 if there is none
  int32_t begin_of_text() const;  // the id that every text of its models starts with; -1 if there is none
  std::span<const SpecialToken> specials() const;  // in the order of their ids
  bool is_defined(int32_t id) const;               // false: an id between others that stands for nothing

  // Control tokens in the text are ordinary text. Throws kData naming the first character that has no id
  // (character tokenizer) and its byte offset; `text` must be valid UTF-8 for the character tokenizer.
  std::vector<int32_t> encode(std::string_view text) const;
  void encode(std::string_view text, std::vector<int32_t>& out) const;  // appends; memory is used again
  // The same, but `allowed` control tokens, by their content, become their ids wherever they stand: the
  // leftmost first, of those that start there the longest. Throws kUse naming one that does not exist.
  std::vector<int32_t> encode_with_specials(std::string_view text,
                                            std::span<const std::string_view> allowed) const;
  std::vector<int32_t> encode_with_specials(std::string_view text) const;  // all of them allowed
  // How many control tokens stand in the text.
  int64_t count_specials(std::string_view text) const;

  enum class Controls { kSkip, kShow };
  // Throws kUse naming an id outside the vocabulary or undefined. Control tokens decode to nothing, or to
  // their content.
  std::string decode(std::span<const int32_t> ids, Controls controls = Controls::kSkip) const;
  std::string_view token_bytes(int32_t id) const;  // the bytes of one id; empty for control tokens
  // A hash of everything that decides ids: model and data must agree on it.
  std::string fingerprint() const;

 private:
  friend class TokenizerStream;
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tril
