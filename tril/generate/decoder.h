// Decoders: the logits after each token of growing sequences, through a key/value cache.
//
// A long prompt is read in chunks. When a sequence would become longer than the context, the model forgets
// it, reads the last half of the context anew and goes on from there; models with a window below the context
// and without learned positions go on without end.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "tril/nn/key_value_cache.h"

namespace tril {

// Several sequences, read together. What one gives does not depend on the others' tokens, but products of
// several rows may add up in another order than those of one: logits agree with a lone sequence's to
// rounding.
class BatchDecoder {
 public:
  static constexpr int64_t kChunk = 512;  // tokens of a prompt read at a time

  struct Options {
    int64_t sequences = 1;
    // Tokens of a sequence that have room; 0: the context. Below the context only if no sequence becomes
    // longer: it decides when half of it is read again.
    int64_t capacity = 0;
    DType cache = DType::kF32;  // how keys and values are stored: kF32 or kBF16
  };
  BatchDecoder(const Transformer& model, Executor& executor, const Options& options);
  ~BatchDecoder();

  // The tokens that each sequence is given; of those without any the logits stay. Throws kUse for a token
  // outside the vocabulary, and for a number of sequences that differs.
  void append(std::span<const std::span<const int32_t>> tokens);
  // After its last token; empty for a sequence without tokens.
  std::span<const float> logits(int64_t sequence) const;  // (V)
  int64_t length(int64_t sequence) const;                 // tokens so far
  void reset(int64_t sequence);
  // Forgets all but the first `tokens`. False, and nothing is changed, where that is impossible: what the
  // next token would see is no longer there. The logits are gone.
  bool truncate(int64_t sequence, int64_t tokens);
  int64_t cache_bytes() const;  // of keys and values

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// One sequence.
class Decoder {
 public:
  Decoder(const Transformer& model, Executor& executor, DType cache = DType::kF32);
  void reset();
  // Throws kUse for a token outside the vocabulary, and for none at all so far.
  std::span<const float> append(std::span<const int32_t> tokens);  // logits (V) after the last one
  // Makes `tokens` the sequence: what it begins with in common with the one so far is kept, the rest is read.
  // At least one token.
  std::span<const float> become(std::span<const int32_t> tokens);  // logits (V) after the last one
  int64_t length() const { return decoder_.length(0); }            // tokens so far
  int64_t tokens_read() const { return tokens_read_; }             // that were given to the model, ever
  int64_t cache_bytes() const { return decoder_.cache_bytes(); }

 private:
  BatchDecoder decoder_;
  std::vector<int32_t> tokens_;  // of the sequence
  int64_t tokens_read_ = 0;
};

}  // namespace tril
