// Decoding and reading of prompts by a model of SmolLM2-135M's shape with random weights, stored in each
// type.
//
//   generate_bench [threads] [types, such as f32,q8_0] [seconds]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "tril/base/random.h"
#include "tril/generate/generate.h"
#include "tril/kernels/machine.h"
#include "tril/nn/session.h"

namespace tril {
namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

TransformerConfig smollm2() {
  TransformerConfig config{.vocabulary = 49152,
                           .context = 2048,
                           .channels = 576,
                           .layers = 30,
                           .heads = 9,
                           .kv_heads = 3,
                           .mlp_hidden = 1536};
  config.set_architecture("llama");
  return config.resolved();
}

double best_seconds(double seconds, const std::function<void()>& call) {
  double best = 1e9;
  const double end = now() + seconds;
  do {
    const double start = now();
    call();
    best = std::min(best, now() - start);
  } while (now() < end);
  return best;
}

void measure(Transformer& model, Parameters& parameters, std::string_view type, double seconds,
             Executor& executor) {
  std::vector<int32_t> tokens;
  const RandomStream random(1, "bench tokens");
  for (uint64_t i = 0; i < 512; ++i) tokens.push_back(static_cast<int32_t>(random.below(i, 49152)));
  Decoder decoder(model, executor);
  const double prompt = best_seconds(seconds, [&] {
    decoder.reset();
    decoder.append(tokens);
  });
  decoder.reset();
  decoder.append(std::span(tokens).first(16));
  const double token = best_seconds(seconds,
                                    [&] {
                                      for (int i = 0; i < 8; ++i) decoder.append(std::span(tokens).first(1));
                                      if (decoder.length() > 500)
                                        decoder.reset(), decoder.append(std::span(tokens).first(16));
                                    }) /
                       8;
  fmt::print("{:5} {:7.1f} MB  prompt {:7.1f} tokens/s  decode {:7.1f} tokens/s  {:6.2f} GB/s\n", type,
             static_cast<double>(parameters.bytes()) * 1e-6, 512 / prompt, 1 / token,
             static_cast<double>(parameters.bytes()) / token * 1e-9);
}

}  // namespace
}  // namespace tril

int main(int argc, char** argv) {
  using namespace tril;
  ThreadPool pool(argc > 1 ? std::atoi(argv[1]) : available_threads());
  const std::string types = std::string(",") + (argc > 2 ? argv[2] : "f32,bf16,q8_0,q4_0,q4_1") + ",";
  const double seconds = argc > 3 ? std::atof(argv[3]) : 1;
  Transformer model(smollm2());
  Parameters parameters(model, Parameters::Memory::kValues);
  parameters.initialize(1, pool);
  fmt::print("memory is read at {:.1f} GB/s, products peak at {:.0f} GFLOP/s\n", measure_read_bandwidth(pool),
             measure_fma_peak_gflops(pool));
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1}) {
    const std::string name(dtype_info(dtype).name);
    if (types.find("," + name + ",") == std::string::npos) continue;
    parameters.convert(dtype, pool);
    measure(model, parameters, name, seconds, pool);
  }
}
