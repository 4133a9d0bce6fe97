// Generation: sampling tokens from a Transformer, one at a time.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tril/nn/key_value_cache.h"

namespace tril {

struct SamplerOptions {
  float temperature = 0.8f;  // 0: greedy, the lowest id on ties
  int64_t top_k = 0;         // 0: all
  float top_p = 1.0f;        // in (0, 1]
  uint64_t seed = 1;
};

// Throws kUse naming the option and its value (negative or NaN temperature, top_p outside (0, 1], ...).
void check_sampler(const SamplerOptions& options);

// Draws from logits (V). `index` numbers the draw. Throws kNumerics with the step when logits are not finite.
int32_t sample_token(std::span<const float> logits, const SamplerOptions& options, uint64_t index);

// Decoder: the logits after each token of one growing sequence, through a key/value cache. A long prompt is
// read in chunks. When the sequence is longer than the context, the model reads the last half of the context
// anew and goes on from there; models with a window below the context and without
// learned positions go on without end.
class Decoder {
 public:
  static constexpr int64_t kChunk = 512;  // tokens of a prompt read at a time

  // `cache`: how keys and values are stored, kF32 or kBF16.
  Decoder(const Transformer& model, Executor& executor, DType cache = DType::kF32);
  ~Decoder();
  void reset();
  // Throws kUse for a token outside the vocabulary, and for none at all so far.
  std::span<const float> append(std::span<const int32_t> tokens);  // logits (V) after the last one
  int64_t length() const;                                          // tokens so far
  int64_t cache_bytes() const;                                     // of keys and values

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Appends up to max_tokens to `prompt` (at least one token), calling on_token for each new one; stops when
// on_token returns false or end_of_text (if >= 0) is drawn. Returns the new tokens, without end_of_text.
std::vector<int32_t> generate(const Transformer& model, Executor& executor, std::span<const int32_t> prompt,
                              int64_t max_tokens, const SamplerOptions& options, int32_t end_of_text = -1,
                              const std::function<bool(int32_t)>& on_token = {}, DType cache = DType::kF32);

}  // namespace tril
