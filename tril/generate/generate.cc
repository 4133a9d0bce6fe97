#include "tril/generate/generate.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/sizes.h"

namespace tril {

std::vector<int32_t> generate(const Transformer& model, Executor& executor, std::span<const int32_t> prompt,
                              int64_t max_tokens, const SamplerOptions& options, int32_t end_of_text,
                              const std::function<bool(int32_t)>& on_token, DType cache) {
  GenerateOptions all{.sampler = options, .max_tokens = max_tokens, .cache = cache};
  if (end_of_text >= 0) all.stop_ids.push_back(end_of_text);
  const GenerateRequest request{.prompt = {prompt.begin(), prompt.end()}, .seed = options.seed};
  std::vector<int32_t> out;
  generate_batch(model, executor, {&request, 1}, all, [&](size_t, int32_t token, std::span<const float>) {
    if (token == end_of_text) return false;
    out.push_back(token);
    return !on_token || on_token(token);
  });
  return out;
}

void generate_batch(const Transformer& model, Executor& executor, std::span<const GenerateRequest> requests,
                    const GenerateOptions& options, const OnToken& on_token) {
  check_sampler(options.sampler, model.config().vocabulary);
  check_use(options.max_tokens >= 0, "generation: --max-tokens is {}; give a number from 0",
            options.max_tokens);
  std::vector<Sampler> samplers;
  int64_t longest = 0;
  for (const GenerateRequest& request : requests) {
    check_use(!request.prompt.empty(), "generation: the prompt is empty; give at least one token");
    SamplerOptions sampler = options.sampler;
    sampler.seed = request.seed;
    samplers.emplace_back(sampler, request.prompt);
    longest = std::max(longest, checked_add(std::ssize(request.prompt), options.max_tokens));
  }
  if (options.max_tokens == 0 || requests.empty()) return;
  BatchDecoder decoder(model, executor,
                       {.sequences = std::ssize(requests),
                        .capacity = std::min(longest, model.config().context),
                        .cache = options.cache});
  std::vector<std::span<const int32_t>> next;
  for (const GenerateRequest& request : requests) next.emplace_back(request.prompt);
  std::vector<int32_t> drawn(requests.size());
  const auto stops = [&](int32_t token) {
    return std::ranges::find(options.stop_ids, token) != options.stop_ids.end();
  };
  for (int64_t step = 1; std::ranges::any_of(next, [](const auto& tokens) { return !tokens.empty(); });
       ++step) {
    decoder.append(next);
    for (size_t r = 0; r < requests.size(); ++r) {
      if (next[r].empty()) continue;  // it has ended
      const std::span<const float> logits = decoder.logits(static_cast<int64_t>(r));
      const int32_t token = drawn[r] = samplers[r].next(logits);
      const bool goes_on = on_token(r, token, logits) && !stops(token) && step < options.max_tokens;
      next[r] = goes_on ? std::span<const int32_t>(&drawn[r], 1) : std::span<const int32_t>();
    }
  }
}

}  // namespace tril
