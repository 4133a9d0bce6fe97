#include "tril/kernels/machine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/machine.cc"
#include <hwy/foreach_target.h>
// after foreach_target.h
#include <hwy/highway.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <vector>

#include "tril/kernels/matmul.h"
#include "tril/tensor/tensor.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = HWY_LANES(float);

// Twelve independent chains hide a latency of up to six cycles on two units; twelve sums and two factors fit
// in 16 registers. Returns the floating point operations done; *sink keeps the compiler from dropping them.
double fma_run(int64_t steps, float* sink) {
  const D d;
  constexpr int kChains = 12;
  const V factor = hn::Set(d, 0.999f), term = hn::Set(d, 1e-3f);
  V x[kChains];
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) x[i] = hn::Set(d, 1.0f + 0.01f * static_cast<float>(i));
  for (int64_t s = 0; s < steps; ++s) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) x[i] = hn::MulAdd(x[i], factor, term);
  }
  V sum = x[0];
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) sum = hn::Add(sum, x[i]);
  *sink = hn::GetLane(sum);
  return 2.0 * kChains * static_cast<double>(kLanes * steps);
}

// Sums `count` floats, eight vectors at a time.
float read_run(int64_t count, const float* x) {
  const D d;
  constexpr int kChains = 8;
  V sum[kChains];
#pragma GCC unroll 8
  for (int i = 0; i < kChains; ++i) sum[i] = hn::Zero(d);
  for (int64_t j = 0; j + kChains * kLanes <= count; j += kChains * kLanes) {
#pragma GCC unroll 8
    for (int i = 0; i < kChains; ++i) sum[i] = hn::Add(sum[i], hn::LoadU(d, x + j + i * kLanes));
  }
#pragma GCC unroll 8
  for (int i = 1; i < kChains; ++i) sum[0] = hn::Add(sum[0], sum[i]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

std::string target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(fma_run);
HWY_EXPORT(read_run);
HWY_EXPORT(target_name);

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The best rate, work / time, of runs repeated for `seconds`, at least three.
template <class Run>
double best_rate(double work, double seconds, Run&& run) {
  double best = 0;
  const auto start = Clock::now();
  for (int i = 0; i < 3 || seconds_since(start) < seconds; ++i) {
    const auto begin = Clock::now();
    run();
    best = std::max(best, work / seconds_since(begin));
  }
  return best;
}

}  // namespace

std::string instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

std::string processor_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const size_t colon = line.find(':');
    if (colon != std::string::npos && colon + 2 < line.size()) return line.substr(colon + 2);
  }
  return "unknown";
}

double measure_fma_peak_gflops(Executor& executor, double seconds) {
  // About a millisecond each, so that waking the threads does not count.
  constexpr int64_t kSteps = 300'000;
  const int64_t threads = executor.threads();
  std::vector<float> sinks(static_cast<size_t>(threads) * 16);
  double work = 0;
  const auto run = [&] {
    executor.run(threads, [&](int64_t chunk, int) {
      const double done = HWY_DYNAMIC_DISPATCH(fma_run)(kSteps, &sinks[static_cast<size_t>(chunk) * 16]);
      if (chunk == 0) work = done;
    });
  };
  run();
  return best_rate(work * static_cast<double>(threads) * 1e-9, seconds, run);
}

double measure_read_bandwidth(Executor& executor, double seconds) {
  constexpr int64_t kFloats = int64_t{1} << 26;  // 256 MiB
  constexpr int64_t kGrain = int64_t{1} << 20;
  Tensor data({kFloats});
  std::vector<float> sums(kFloats / kGrain);
  executor.run(1, [&](int64_t, int) { std::fill_n(data.f32(), kFloats, 1.0f); });
  return best_rate(kFloats * sizeof(float) * 1e-9, seconds, [&] {
    parallel_for(executor, kFloats, kGrain, [&](int64_t begin, int64_t end, int) {
      sums[static_cast<size_t>(begin / kGrain)] =
          HWY_DYNAMIC_DISPATCH(read_run)(end - begin, data.f32() + begin);
    });
  });
}

double measure_matmul_gflops(Executor& executor, int64_t size, double seconds) {
  const auto edge = static_cast<double>(size);
  if (size >= 512) {  // where one product of this size takes longer than that, a smaller one stands for it
    const double small = measure_matmul_gflops(executor, size / 4, 0);
    if (2e-9 * edge * edge * edge > seconds * small) return small;
  }
  const auto count = static_cast<size_t>(size * size);
  std::vector<float> a(count, 0.5f), b(count, 0.25f), c(count);
  std::vector<float> workspace(static_cast<size_t>(matmul_workspace(size, size, size)));
  const Product product{.transpose_b = Transpose::kYes,
                        .m = size,
                        .n = size,
                        .k = size,
                        .a = a.data(),
                        .lda = size,
                        .b = b.data(),
                        .ldb = size,
                        .c = c.data(),
                        .ldc = size};
  const auto run = [&] { matmul(executor, product, workspace.data()); };
  run();
  return best_rate(2e-9 * edge * edge * edge, seconds, run);
}

}  // namespace tril
#endif
