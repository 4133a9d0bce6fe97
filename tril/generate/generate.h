// Generation: sampling tokens from a Transformer, one at a time, for one text or several together.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tril/generate/decoder.h"
#include "tril/generate/sampler.h"

namespace tril {

// Appends up to max_tokens to `prompt` (at least one token), calling on_token for each new one; stops when
// on_token returns false or end_of_text (if >= 0) is drawn. Returns the new tokens, without end_of_text.
std::vector<int32_t> generate(const Transformer& model, Executor& executor, std::span<const int32_t> prompt,
                              int64_t max_tokens, const SamplerOptions& options, int32_t end_of_text = -1,
                              const std::function<bool(int32_t)>& on_token = {}, DType cache = DType::kF32);

// A text to be written.
struct GenerateRequest {
  std::vector<int32_t> prompt;  // at least one token
  uint64_t seed = 1;            // in place of the options'
};

struct GenerateOptions {
  SamplerOptions sampler;
  int64_t max_tokens = 200;
  std::vector<int32_t> stop_ids;  // a token that ends its text
  DType cache = DType::kF32;
};

// A token that was drawn, and the logits (V) it was drawn from. Return false to end this text. A stop id is
// the last that is told.
using OnToken = std::function<bool(size_t request, int32_t token, std::span<const float> logits)>;

// All requests together, a token of each at a time: a step reads the weights once for all. Each text is what
// it would be alone, but where rounding decides (see BatchDecoder).
void generate_batch(const Transformer& model, Executor& executor, std::span<const GenerateRequest> requests,
                    const GenerateOptions& options, const OnToken& on_token);

}  // namespace tril
