// Tokenizers: text to ids and back. Byte-level BPE (Sennrich et al. 2016; bytes and the split pattern as in
// GPT-2, Radford et al. 2019), single characters, or raw bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/files.h"

namespace tril {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

// Const members may be called from several threads at once.
class Tokenizer {
 public:
  enum class Kind { kBpe, kCharacter, kByte };

  // Trains merges until `vocabulary` ids exist (256 bytes, merges, and end-of-text last) or no pair occurs
  // twice. Ties are broken by the smaller (left, right) pair of ids: the same tokenizer on every machine.
  static Tokenizer train_bpe(std::span<const std::string_view> texts, int64_t vocabulary);
  // One id per distinct character (code point), in code point order. No end-of-text unless
  // `with_end_of_text`.
  static Tokenizer characters(std::span<const std::string_view> texts, bool with_end_of_text);
  static Tokenizer bytes(bool with_end_of_text);

  // tokenizer.json as Hugging Face's tokenizers reads it; load() throws kData with the reason for what it
  // cannot express exactly.
  static Tokenizer load(const Path& path);
  void save(const Path& path) const;

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  Kind kind() const;
  std::string_view kind_name() const;  // "bpe", "char", "byte"
  int64_t vocabulary() const;          // number of ids
  int32_t end_of_text() const;         // -1 if there is none

  // Special tokens in the text are ordinary text. Throws kData naming the first character that has no id
  // (character tokenizer) and its byte offset; `text` must be valid UTF-8 for the character tokenizer.
  std::vector<int32_t> encode(std::string_view text) const;
  // Throws kUse naming an id outside the vocabulary. End-of-text decodes to nothing.
  std::string decode(std::span<const int32_t> ids) const;
  std::string_view token_bytes(int32_t id) const;  // the bytes of one id; empty for end-of-text
  // A hash of everything that decides ids: model and data must agree on it.
  std::string fingerprint() const;

 private:
  struct Impl;
  explicit Tokenizer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace tril
