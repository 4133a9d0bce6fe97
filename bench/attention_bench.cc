// Causal attention in useful GFLOP/s: forward 4 B H D T (T + 1) / 2, backward 2.5 times that. Checks itself
// against a plain loop first. Arguments: threads (all), seconds a measurement (0.5), head size (64), and a
// length T: then one forward of one head of that length, such as 1048576, is all that is measured.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "tril/base/random.h"
#include "tril/kernels/attention.h"
#include "tril/kernels/machine.h"

namespace {

using namespace tril;

std::vector<float> normal(uint64_t seed, int64_t count) {
  const RandomStream random(seed, "bench");
  std::vector<float> x(static_cast<size_t>(count));
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random.normal(i));
  return x;
}

// Buffers as a training step has them: q|k|v fused in one row, and so their gradients.
struct Bench {
  AttentionShape shape;
  std::vector<float> qkv, out, dout, dqkv, running_max, running_sum, workspace;

  Bench(const AttentionShape& s, int threads, bool backward = true)
      : shape(s),
        qkv(normal(1, s.batch * s.query_length * 3 * s.query_heads * s.head_size)),
        out(qkv.size() / 3),
        dout(backward ? normal(2, static_cast<int64_t>(out.size())) : std::vector<float>()),
        dqkv(backward ? qkv.size() : 0),
        running_max(static_cast<size_t>(s.batch * s.query_heads * s.query_length)),
        running_sum(running_max.size()),
        workspace(static_cast<size_t>(backward ? attention_workspace(s, threads)
                                               : attention_forward_workspace(s, threads))) {}

  int64_t channels() const { return shape.query_heads * shape.head_size; }
  template <class Float>
  HeadRows<Float> part(Float* data, int64_t i) const {
    return {data + i * channels(), shape.query_length * 3 * channels(), 3 * channels(), shape.head_size};
  }
  template <class Float>
  HeadRows<Float> whole(Float* data) const {
    return {data, shape.query_length * channels(), channels(), shape.head_size};
  }
  ConstHeadView input(int64_t i) const { return part(qkv.data(), i); }

  void forward(Executor& executor) {
    attention_forward(executor, shape, {}, input(0), input(1), input(2), whole(out.data()),
                      running_max.data(), running_sum.data(), workspace.data());
  }
  void backward(Executor& executor) {
    const float* const o = out.data();
    const float* const g = dout.data();
    attention_backward(executor, shape, {}, input(0), input(1), input(2), whole(o), running_max.data(),
                       running_sum.data(), whole(g), part(dqkv.data(), 0), part(dqkv.data(), 1),
                       part(dqkv.data(), 2), workspace.data());
  }
  double forward_flops() const {
    const auto T = static_cast<double>(shape.query_length);
    return 4.0 * static_cast<double>(shape.batch * channels()) * T * (T + 1) / 2;
  }

  // The largest error of the last row of each sequence, in double by plain loops.
  double check() const {
    const int64_t T = shape.query_length, D = shape.head_size;
    double worst = 0;
    for (int64_t b = 0; b < shape.batch; ++b) {
      const float* const q = input(0).row(b, T - 1, 0);
      std::vector<double> sums(static_cast<size_t>(D));
      double total = 0;
      for (int64_t j = 0; j < T; ++j) {
        double dot = 0;
        for (int64_t i = 0; i < D; ++i) dot += static_cast<double>(q[i]) * input(1).row(b, j, 0)[i];
        const double p = std::exp(dot / std::sqrt(static_cast<double>(D)));
        total += p;
        for (int64_t i = 0; i < D; ++i) sums[static_cast<size_t>(i)] += p * input(2).row(b, j, 0)[i];
      }
      for (int64_t i = 0; i < D; ++i) {
        worst = std::max(
            worst, std::abs(sums[static_cast<size_t>(i)] / total - whole(out.data()).row(b, T - 1, 0)[i]));
      }
    }
    return worst;
  }
};

using Clock = std::chrono::steady_clock;

// Medians of forward and backward, run in turn.
std::pair<double, double> measure(Bench& bench, Executor& executor, double seconds) {
  std::vector<double> forward, backward;
  const auto elapsed = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto start = Clock::now();
  while (forward.size() < 3 || elapsed(start) < seconds) {
    auto now = Clock::now();
    bench.forward(executor);
    forward.push_back(elapsed(now));
    now = Clock::now();
    bench.backward(executor);
    backward.push_back(elapsed(now));
  }
  const auto median = [](std::vector<double>& x) {
    std::nth_element(x.begin(), x.begin() + static_cast<int64_t>(x.size() / 2), x.end());
    return x[x.size() / 2];
  };
  return {median(forward), median(backward)};
}

bool right(const Bench& bench) {
  const double error = bench.check();
  if (!(error < 1e-5))
    fmt::print(stderr, "attention at T = {} is wrong by {}\n", bench.shape.query_length, error);
  return error < 1e-5;
}

// One forward of one head.
int measure_long(Executor& executor, int64_t T, int64_t head_size) {
  Bench bench({1, 1, 1, T, T, head_size}, executor.threads(), false);
  const double peak = measure_fma_peak_gflops(executor);
  const auto start = Clock::now();
  bench.forward(executor);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const double gflops = bench.forward_flops() * 1e-9 / seconds;
  fmt::print("B 1 H 1 T {} D {}: forward {:.1f} s, {:.1f} GFLOP/s ({:.0f} %), workspace {:.1f} MB\n", T,
             head_size, seconds, gflops, 100 * gflops / peak,
             4e-6 * static_cast<double>(bench.workspace.size()));
  return right(bench) ? 0 : 3;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : available_threads();
  const double seconds = argc > 2 ? std::atof(argv[2]) : 0.5;
  const int64_t head_size = argc > 3 ? std::atoi(argv[3]) : 64;
  ThreadPool pool(threads);
  fmt::print("{}, {} threads\n", instruction_set(), threads);
  if (argc > 4) return measure_long(pool, std::atoll(argv[4]), head_size);
  for (const int64_t T : {16, 64, 256, 1024, 4096}) {
    Bench bench({std::max<int64_t>(1, 4096 / T), 12, 12, T, T, head_size}, threads);
    bench.forward(pool);
    if (!right(bench)) return 3;
    const double peak = measure_fma_peak_gflops(pool, 0.05);
    const auto [forward, backward] = measure(bench, pool, seconds);
    const double flops = bench.forward_flops() * 1e-9;
    fmt::print(
        "B {:3} H 12 T {:4} D {}: forward {:6.1f} GFLOP/s ({:2.0f} %), backward {:6.1f} ({:2.0f} %), peak "
        "{:.0f}\n",
        bench.shape.batch, T, head_size, flops / forward, 100 * flops / forward / peak,
        2.5 * flops / backward, 250 * flops / backward / peak, peak);
  }
}
