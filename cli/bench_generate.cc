#include <algorithm>

#include "cli/bench.h"
#include "tril/generate/generate.h"
#include "tril/interop/model_folder.h"

namespace tril::cli {

void bench_generate(const BenchOptions& options, Executor& executor) {
  const LoadedModel loaded = load_model(options.files.front());
  const TransformerConfig& config = loaded.config;
  // A prompt that fills half of the context, at most 512 tokens, and up to 64 tokens after it, one at a time.
  const int64_t time = std::clamp<int64_t>(config.context / 2, 1, 512);
  const int64_t count = std::clamp<int64_t>(config.context - time, 1, 64);
  std::vector<int32_t> tokens;
  const RandomStream random(1, "bench tokens");
  for (int64_t i = 0; i < time; ++i)
    tokens.push_back(static_cast<int32_t>(
        random.below(static_cast<uint64_t>(i), static_cast<uint64_t>(config.vocabulary))));
  BenchTable table(options.json);
  for (const DType cache : {DType::kF32, DType::kBF16}) {
    Decoder decoder(*loaded.model, executor, cache);
    std::vector<double> prompts, decoded;
    const double end = now() + options.seconds;
    while (prompts.size() < 4 || now() < end) {
      const double start = now();
      decoder.reset();
      decoder.append(tokens);
      const double read = now();
      for (int64_t i = 0; i < count; ++i) decoder.append(std::span(tokens).first(1));
      prompts.push_back(read - start);
      decoded.push_back((now() - read) / static_cast<double>(count));
    }
    const double prefill = median(prompts), token = median(decoded);
    table.row({{"model", options.files.front()},
               {"cache", std::string(dtype_info(cache).name)},
               {"parameters", config.parameter_count()},
               {"prompt_tokens", time},
               {"prefill_tokens_per_s", static_cast<double>(time) / prefill},
               {"decode_tokens_per_s", 1 / token},
               {"weights_gb_per_s", 4e-9 * static_cast<double>(config.matrix_parameters()) / token},
               {"cache_bytes", decoder.cache_bytes()}});
  }
}

}  // namespace tril::cli
