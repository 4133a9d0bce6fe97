// The matrix products of training steps: checks some elements of each against double, then times it.
// Prints GFLOP/s and the share of the FMA peak of the same threads, measured in the same run.
//   matmul_bench --benchmark_filter=gpt2 --benchmark_repetitions=5
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <thread>

#include "tril/base/random.h"
#include "tril/kernels/machine.h"
#include "tril/kernels/matmul.h"

namespace tril {
namespace {

// A linear layer on `rows` rows: three products.
struct Layer {
  const char* model;
  int64_t rows, in, out;
};

constexpr Layer kLayers[] = {
    {"names-1x16", 512, 16, 48},      {"names-1x16", 512, 16, 64},       {"names-1x16", 512, 64, 16},
    {"names-1x16", 512, 16, 27},      {"adder-2x64", 4096, 64, 192},     {"adder-2x64", 4096, 64, 64},
    {"adder-2x64", 4096, 64, 256},    {"adder-2x64", 4096, 256, 64},     {"char-4x128", 768, 128, 384},
    {"char-4x128", 768, 128, 128},    {"char-4x128", 768, 128, 512},     {"char-4x128", 768, 512, 128},
    {"char-4x128", 768, 128, 65},     {"char-6x384", 16384, 384, 1152},  {"char-6x384", 16384, 384, 384},
    {"char-6x384", 16384, 384, 1536}, {"char-6x384", 16384, 1536, 384},  {"char-6x384", 16384, 384, 65},
    {"gpt2-b4t256", 1024, 768, 2304}, {"gpt2-b4t256", 1024, 768, 768},   {"gpt2-b4t256", 1024, 768, 3072},
    {"gpt2-b4t256", 1024, 3072, 768}, {"gpt2-b4t256", 1024, 768, 50257}, {"seed-13m", 4096, 128, 50304},
};

enum class Pass { kForward, kInputGradient, kWeightGradient };

struct Buffers {
  Buffers(Product p, int64_t floats_a, int64_t floats_b) : product(p) {
    const RandomStream random(1, "bench");
    const auto fill = [&](int64_t count) {
      std::unique_ptr<float[]> x(new float[static_cast<size_t>(count)]);
      // A short pattern: drawing hundreds of megabytes would take longer than the products.
      for (int64_t i = 0; i < count; ++i) x[i] = i < 4099 ? random.uniform(i) - 0.5f : x[i - 4099];
      return x;
    };
    a = fill(floats_a);
    b = fill(floats_b);
    c = std::make_unique<float[]>(static_cast<size_t>(p.m * p.n));
    workspace = std::make_unique<float[]>(static_cast<size_t>(matmul_workspace(p.m, p.n, p.k)));
    product.a = a.get();
    product.b = b.get();
    product.c = c.get();
  }
  std::unique_ptr<float[]> a, b, c, workspace;
  Product product;
};

Buffers make_product(const Layer& layer, Pass pass) {
  Product p;
  if (pass == Pass::kForward) {
    p = {.transpose_b = Transpose::kYes, .m = layer.rows, .n = layer.out, .k = layer.in};
  } else if (pass == Pass::kInputGradient) {
    p = {.m = layer.rows, .n = layer.in, .k = layer.out};
  } else {
    p = {.transpose_a = Transpose::kYes, .m = layer.out, .n = layer.in, .k = layer.rows};
    p.accumulate = true;
  }
  p.lda = p.transpose_a == Transpose::kYes ? p.m : p.k;
  p.ldb = p.transpose_b == Transpose::kYes ? p.k : p.n;
  p.ldc = p.n;
  return Buffers(p, p.m * p.k, p.k * p.n);
}

// C starts at zero, so accumulating once must give the product. |error| <= epsilon * sum |a b| covers any
// order of adding for K <= 2^24; real errors are far smaller.
bool right(const Product& p) {
  const RandomStream random(2, "check");
  for (uint64_t s = 0; s < 200; ++s) {
    const auto i = static_cast<int64_t>(random.below(2 * s, static_cast<uint64_t>(p.m)));
    const auto j = static_cast<int64_t>(random.below(2 * s + 1, static_cast<uint64_t>(p.n)));
    double sum = 0, size = 0;
    for (int64_t k = 0; k < p.k; ++k) {
      const double x = p.transpose_a == Transpose::kYes ? p.a[k * p.lda + i] : p.a[i * p.lda + k];
      const double y = p.transpose_b == Transpose::kYes ? p.b[j * p.ldb + k] : p.b[k * p.ldb + j];
      sum += x * y;
      size += std::abs(x * y);
    }
    if (!(std::abs(p.c[i * p.ldc + j] - sum) <= 1e-6 * size + 1e-30)) return false;
  }
  return true;
}

ThreadPool& pool_of(int threads) {
  static std::map<int, std::unique_ptr<ThreadPool>> pools;
  auto& pool = pools[threads];
  if (!pool) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

void run(benchmark::State& state, const Layer& layer, Pass pass, int threads) {
  ThreadPool& pool = pool_of(threads);
  const double peak = measure_fma_peak_gflops(pool, 0.05);
  Buffers x = make_product(layer, pass);
  matmul(pool, x.product, x.workspace.get());
  if (!right(x.product)) {
    state.SkipWithError("wrong product");
    return;
  }
  for (auto _ : state) matmul(pool, x.product, x.workspace.get());
  const double work = 2e-9 * static_cast<double>(x.product.m) * static_cast<double>(x.product.n) *
                      static_cast<double>(x.product.k) * static_cast<double>(state.iterations());
  state.counters["GFLOP/s"] = benchmark::Counter(work, benchmark::Counter::kIsRate);
  state.counters["%peak"] = benchmark::Counter(100 * work / peak, benchmark::Counter::kIsRate);
}

void register_all() {
  constexpr std::pair<Pass, const char*> kPasses[] = {
      {Pass::kForward, "forward"}, {Pass::kInputGradient, "dx"}, {Pass::kWeightGradient, "dW"}};
  std::vector<int> threads = {1};
  if (available_threads() > 1) threads.push_back(available_threads());
  for (const Layer& layer : kLayers) {
    for (const auto& [pass, name] : kPasses) {
      for (const int n : threads) {
        benchmark::RegisterBenchmark(
            fmt::format("{}/{}x{}x{}/{}/threads:{}", layer.model, layer.rows, layer.in, layer.out, name, n)
                .c_str(),
            [&layer, pass = pass, n](benchmark::State& state) { run(state, layer, pass, n); })
            ->UseRealTime()
            ->MinTime(0.2);
      }
    }
  }
}

}  // namespace
}  // namespace tril

int main(int argc, char** argv) {
  benchmark::AddCustomContext("processor", tril::processor_name());
  benchmark::AddCustomContext("instruction set", tril::instruction_set());
  benchmark::AddCustomContext("engine", tril::matmul_engine());
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tril::register_all();
  benchmark::RunSpecifiedBenchmarks();
}
