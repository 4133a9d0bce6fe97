// Bandwidth of the memory-bound kernels on sizes of a training step: bytes that must move, once each, per
// second. --benchmark_filter chooses; TRIL_BENCH_THREADS sets the number of threads (1).
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <vector>

#include "tril/base/random.h"
#include "tril/kernels/activation.h"
#include "tril/kernels/adamw.h"
#include "tril/kernels/cross_entropy.h"
#include "tril/kernels/dropout.h"
#include "tril/kernels/elementwise.h"
#include "tril/kernels/embedding.h"
#include "tril/kernels/norm.h"
#include "tril/kernels/query_key.h"
#include "tril/kernels/rope.h"

namespace tril {
namespace {

Executor& pool() {
  static const char* const text = std::getenv("TRIL_BENCH_THREADS");
  static ThreadPool executor(text != nullptr ? std::atoi(text) : 1);
  return executor;
}

std::vector<float> numbers(int64_t count) {
  const RandomStream random(1, "bench");
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = 4 * random.uniform(i) - 2;
  return x;
}

std::vector<int32_t> indices(int64_t count, int64_t below) {
  const RandomStream random(2, "bench");
  std::vector<int32_t> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<int32_t>(random.below(i, static_cast<uint64_t>(below)));
  return x;
}

// GB/s, and nanoseconds an element over all threads.
void report(benchmark::State& state, int64_t elements, int64_t bytes_an_element) {
  state.SetBytesProcessed(state.iterations() * elements * bytes_an_element);
  state.counters["ns/element"] =
      benchmark::Counter(static_cast<double>(state.iterations() * elements) * 1e-9,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void layer_norm_forward(benchmark::State& state) {
  const int64_t rows = state.range(0), channels = state.range(1);
  std::vector<float> x = numbers(rows * channels), y = x, weight = numbers(channels), mean(rows), rstd(rows);
  for (auto _ : state) {
    norm_forward(pool(), {}, rows, channels, x.data(), weight.data(), weight.data(), y.data(), mean.data(),
                 rstd.data());
  }
  report(state, rows * channels, 8);
}

void layer_norm_backward(benchmark::State& state) {
  const int64_t rows = state.range(0), channels = state.range(1);
  std::vector<float> x = numbers(rows * channels), y = x, dy = x, dx = x, weight = numbers(channels);
  std::vector<float> mean(rows), rstd(rows), dweight(channels), dbias(channels);
  std::vector<float> workspace(norm_backward_workspace(rows, channels));
  norm_forward(pool(), {}, rows, channels, x.data(), weight.data(), weight.data(), y.data(), mean.data(),
               rstd.data());
  for (auto _ : state) {
    norm_backward(pool(), NormKind::kLayer, rows, channels, x.data(), weight.data(), mean.data(), rstd.data(),
                  dy.data(), dx.data(), true, dweight.data(), dbias.data(), workspace.data());
  }
  report(state, rows * channels, 16);
}

// Queries and keys of 12 heads of 64: RMS norm and rotation.
void query_key_bench(benchmark::State& state) {
  const int64_t rows = state.range(0), heads = 12, size = 64;
  const std::vector<float> qkv = numbers(rows * 3 * heads * size), weight = numbers(size);
  std::vector<float> qk(rows * 2 * heads * size), dqkv = qkv, rotation(rows * size), dweight(2 * size);
  rope_rotation(pool(), {}, size, rows, nullptr, rotation.data());
  const QueryKey options{.rows = rows,
                         .heads = heads,
                         .kv_heads = heads,
                         .head_size = size,
                         .query_weight = state.range(1) ? weight.data() : nullptr,
                         .key_weight = state.range(1) ? weight.data() : nullptr,
                         .rotation = rotation.data(),
                         .rotation_rows = rows,
                         .rope_size = size};
  std::vector<float> workspace(query_key_backward_workspace(options));
  for (auto _ : state) {
    if (state.range(2))
      query_key_backward(pool(), options, qkv.data(), dqkv.data(), dweight.data(), dweight.data() + size,
                         workspace.data());
    else
      query_key_forward(pool(), options, qkv.data(), qk.data());
  }
  report(state, rows * 2 * heads * size, 8);
}

void gated_forward_bench(benchmark::State& state, Activation activation) {
  const std::vector<float> gate = numbers(state.range(0)), x = gate;
  std::vector<float> y = x;
  for (auto _ : state) gated_forward_row(activation, state.range(0), gate.data(), x.data(), y.data());
  report(state, state.range(0), 12);
}

void activation_forward_bench(benchmark::State& state, Activation activation) {
  const std::vector<float> x = numbers(state.range(0));
  std::vector<float> y = x;
  for (auto _ : state) activation_forward(pool(), activation, state.range(0), x.data(), y.data());
  report(state, state.range(0), 8);
}

void activation_backward_bench(benchmark::State& state, Activation activation) {
  // Where GELU(x) is x, so that repeating it in place does not end in denormal numbers.
  std::vector<float> x = numbers(state.range(0)), dy = x;
  for (float& v : x) v += 10;
  for (auto _ : state) activation_backward(pool(), activation, state.range(0), x.data(), dy.data());
  report(state, state.range(0), 16);
}

// A row of a matmul epilogue: what dispatch costs.
void activation_row_bench(benchmark::State& state) {
  const std::vector<float> x = numbers(state.range(0));
  std::vector<float> y = x;
  for (auto _ : state) {
    activation_forward_row(Activation::kGeluTanh, state.range(0), x.data(), y.data());
    benchmark::ClobberMemory();
  }
  report(state, state.range(0), 8);
}

void cross_entropy_bench(benchmark::State& state) {
  const int64_t rows = state.range(0), vocabulary = state.range(1);
  std::vector<float> logits = numbers(rows * vocabulary), losses(rows);
  const std::vector<int32_t> targets = indices(rows, vocabulary);
  for (auto _ : state)
    cross_entropy(pool(), rows, vocabulary, logits.data(), targets.data(), nullptr, 1e-3f, 0, 0,
                  losses.data());
  report(state, rows * vocabulary, 8);
}

void adamw_bench(benchmark::State& state) {
  const int64_t count = state.range(0);
  std::vector<float> w = numbers(count), g = w, m = w, v(count, 1e-4f);
  // Gradients are zero after the first step; moments that hardly decay do not become denormal.
  const AdamWStep step{
      .learning_rate = 1e-6f, .beta1 = 0.9999999f, .beta2 = 0.9999999f, .weight_decay = 0.1f, .step = 100};
  for (auto _ : state) adamw(pool(), step, count, w.data(), g.data(), m.data(), v.data());
  report(state, count, 32);
}

void sum_of_squares_bench(benchmark::State& state) {
  const std::vector<float> x = numbers(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(sum_of_squares(state.range(0), x.data()));
  report(state, state.range(0), 4);
}

void embedding_forward_bench(benchmark::State& state) {
  const int64_t rows = state.range(0), channels = state.range(1), vocabulary = state.range(2);
  const std::vector<int32_t> tokens = indices(rows, vocabulary);
  const std::vector<float> table = numbers(vocabulary * channels), positions = numbers(rows * channels);
  std::vector<float> y(rows * channels);
  for (auto _ : state)
    embedding_forward(pool(), rows, rows, channels, tokens.data(), nullptr,
                      StoredRows(ConstView(table.data(), {vocabulary, channels})), positions.data(),
                      y.data());
  report(state, rows * channels, 12);
}

void embedding_backward_bench(benchmark::State& state) {
  const int64_t rows = state.range(0), channels = state.range(1), vocabulary = state.range(2);
  const std::vector<int32_t> tokens = indices(rows, vocabulary);
  const std::vector<float> dy = numbers(rows * channels);
  std::vector<float> dtable(vocabulary * channels);
  for (auto _ : state)
    embedding_backward(pool(), rows, rows, channels, tokens.data(), dy.data(), dtable.data());
  report(state, rows * channels, 12);
}

void dropout_bench(benchmark::State& state) {
  const std::vector<float> x = numbers(state.range(0));
  std::vector<float> y = x;
  for (auto _ : state) dropout(pool(), {0.1f, 42, 7}, state.range(0), x.data(), y.data());
  report(state, state.range(0), 8);
}

void add_bench(benchmark::State& state) {
  const std::vector<float> x(static_cast<size_t>(state.range(0)), 0.0f);
  std::vector<float> y = numbers(state.range(0));
  for (auto _ : state) add(pool(), state.range(0), x.data(), y.data());
  report(state, state.range(0), 12);
}

void bias_backward_bench(benchmark::State& state) {
  const int64_t rows = state.range(0), channels = state.range(1);
  const std::vector<float> dy = numbers(rows * channels);
  std::vector<float> dbias(channels), workspace(bias_backward_workspace(rows, channels));
  for (auto _ : state) bias_backward(pool(), rows, channels, dy.data(), dbias.data(), workspace.data());
  report(state, rows * channels, 4);
}

void first_non_finite_bench(benchmark::State& state) {
  const std::vector<float> x = numbers(state.range(0));
  int64_t bad = 0;
  for (auto _ : state) first_non_finite(pool(), state.range(0), x.data(), &bad);
  report(state, state.range(0), 4);
}

// In cache (a tiny model's arrays) and beyond it (GPT-2 small: 4 x 256 rows, 768 channels, 50304 tokens).
constexpr int64_t kSmall = 1 << 14;
constexpr int64_t kLarge = 1 << 24;

BENCHMARK(layer_norm_forward)->Args({256, 64})->Args({1024, 768})->Args({16384, 768})->UseRealTime();
BENCHMARK(layer_norm_backward)->Args({256, 64})->Args({1024, 768})->Args({16384, 768})->UseRealTime();
BENCHMARK_CAPTURE(activation_forward_bench, relu, Activation::kRelu)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK_CAPTURE(activation_forward_bench, gelu_tanh, Activation::kGeluTanh)
    ->Arg(kSmall)
    ->Arg(kLarge)
    ->UseRealTime();
BENCHMARK_CAPTURE(activation_forward_bench, gelu, Activation::kGeluErf)
    ->Arg(kSmall)
    ->Arg(kLarge)
    ->UseRealTime();
BENCHMARK_CAPTURE(activation_backward_bench, gelu_tanh, Activation::kGeluTanh)
    ->Arg(kSmall)
    ->Arg(kLarge)
    ->UseRealTime();
BENCHMARK_CAPTURE(activation_backward_bench, gelu, Activation::kGeluErf)
    ->Arg(kSmall)
    ->Arg(kLarge)
    ->UseRealTime();
BENCHMARK_CAPTURE(gated_forward_bench, swiglu, Activation::kSwiGlu)->Arg(kSmall)->UseRealTime();
BENCHMARK_CAPTURE(gated_forward_bench, geglu, Activation::kGeGlu)->Arg(kSmall)->UseRealTime();
BENCHMARK(query_key_bench)
    ->ArgNames({"rows", "norm", "backward"})
    ->Args({1024, 0, 0})
    ->Args({1024, 0, 1})
    ->Args({1024, 1, 0})
    ->Args({1024, 1, 1})
    ->UseRealTime();
BENCHMARK(activation_row_bench)->Arg(16)->Arg(64)->Arg(512)->UseRealTime();
BENCHMARK(cross_entropy_bench)->Args({512, 65})->Args({1024, 8192})->Args({256, 50304})->UseRealTime();
BENCHMARK(adamw_bench)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK(sum_of_squares_bench)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK(embedding_forward_bench)->Args({256, 64, 65})->Args({1024, 768, 50304})->UseRealTime();
BENCHMARK(embedding_backward_bench)->Args({256, 64, 65})->Args({1024, 768, 50304})->UseRealTime();
BENCHMARK(dropout_bench)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK(add_bench)->Arg(kSmall)->Arg(kLarge)->UseRealTime();
BENCHMARK(bias_backward_bench)->Args({256, 64})->Args({1024, 3072})->UseRealTime();
BENCHMARK(first_non_finite_bench)->Arg(kSmall)->Arg(kLarge)->UseRealTime();

}  // namespace
}  // namespace tril

BENCHMARK_MAIN();
