#include <algorithm>

#include "cli/bench.h"
#include "tril/generate/generate.h"
#include "tril/kernels/machine.h"

namespace tril::cli {
namespace {

// What one new token reads: every matrix of products; of an embedding that is not the head's, one row.
double bytes_of_token(const LoadedModel& loaded) {
  int64_t bytes = 0;
  for (const Parameters::Item& item : loaded.parameters->items()) {
    const View& value = item.weight->value;
    const bool row_only = item.weight == &loaded.model->token_embedding && !loaded.config.tied_head;
    if (item.info.product && !row_only) bytes += dtype_bytes(value.dtype, value.elements());
  }
  return static_cast<double>(bytes);
}

// The type of most weights.
std::string_view type_of(const LoadedModel& loaded) {
  return dtype_info(loaded.model->blocks.front()->mlp.hidden.weight.value.dtype).name;
}

}  // namespace

void bench_generate(const BenchOptions& options, Executor& executor) {
  const double start_of_loading = now();
  const LoadedModel loaded = options.weights.load(options.files.front(), executor);
  const double loading = now() - start_of_loading;
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
  double bandwidth = 0;
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
    bandwidth = std::max(bandwidth, measure_read_bandwidth(executor));
    const double prefill = median(prompts), token = median(decoded);
    const double rate = bytes_of_token(loaded) / token * 1e-9;
    table.row({{"model", options.files.front()},
               {"weights", std::string(type_of(loaded))},
               {"cache", std::string(dtype_info(cache).name)},
               {"parameters", config.parameter_count()},
               {"prompt_tokens", time},
               {"prefill_tokens_per_s", static_cast<double>(time) / prefill},
               {"decode_tokens_per_s", 1 / token},
               {"weights_gb_per_s", rate},
               {"bandwidth_gb_per_s", bandwidth},
               {"bandwidth_fraction", rate / bandwidth},
               {"cache_bytes", decoder.cache_bytes()},
               {"load_seconds", loading}});
  }
}

}  // namespace tril::cli
