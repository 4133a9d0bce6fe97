#include "tril/kernels/elementwise.h"

#include <atomic>
#include <cmath>

#include "tril/kernels/chunks.h"
#include "tril/kernels/partial_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/elementwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

void add_floats(size_t count, const float* x, float* y) {
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    access.store(hn::Add(access.load(y + i), access.load(x + i)), y + i);
  });
}

void add_bias(size_t rows, size_t channels, const float* bias, float* y) {
  for (size_t n = 0; n < rows; ++n) add_floats(channels, bias, y + n * channels);
}

// sums_c = sum of y_nc. Four rows at a time, since loading and storing the sums costs as much as the rows.
void sum_rows(size_t rows, size_t channels, const float* y, float* sums) {
  std::fill(sums, sums + channels, 0.0f);
  size_t n = 0;
  for (; n + 4 <= rows; n += 4) {
    const float* row = y + n * channels;
    for_each_vector(channels, [&](size_t c, auto access) HWY_ATTR {
      const FloatVector s01 = hn::Add(access.load(row + c), access.load(row + channels + c));
      const FloatVector s23 =
          hn::Add(access.load(row + 2 * channels + c), access.load(row + 3 * channels + c));
      access.store(hn::Add(access.load(sums + c), hn::Add(s01, s23)), sums + c);
    });
  }
  for (; n < rows; ++n) add_floats(channels, y + n * channels, sums);
}

// Index of the first non-finite element, or count.
size_t find_non_finite(size_t count, const float* x) {
  const FloatTag d;
  constexpr size_t kBlock = 1024;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t size = std::min(kBlock, count - begin);
    // 0 * x is NaN just where x is not finite.
    FloatVector sum = hn::Zero(d);
    for_each_vector(size, [&](size_t i, auto access)
                              HWY_ATTR { sum = hn::MulAdd(access.load(x + begin + i), hn::Zero(d), sum); });
    if (hn::AllFalse(d, hn::IsNaN(sum))) continue;
    for (size_t i = begin; i < begin + size; ++i) {
      if (!std::isfinite(x[i])) return i;
    }
  }
  return count;
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(add_floats);
HWY_EXPORT(add_bias);
HWY_EXPORT(sum_rows);
HWY_EXPORT(find_non_finite);

void add_row(int64_t count, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(add_floats)(static_cast<size_t>(count), x, y);
}

void add(Executor& executor, int64_t count, const float* x, float* y) {
  parallel_for(executor, count, kChunkElements,
               [&](int64_t begin, int64_t end, int) { add_row(end - begin, x + begin, y + begin); });
}

void copy(Executor& executor, int64_t count, const float* x, float* y) {
  parallel_for(executor, count, kChunkElements,
               [&](int64_t begin, int64_t end, int) { std::copy(x + begin, x + end, y + begin); });
}

void bias_forward(Executor& executor, int64_t rows, int64_t channels, const float* bias, float* y) {
  parallel_for(executor, rows, rows_per_chunk(channels), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(add_bias)
    (static_cast<size_t>(end - begin), static_cast<size_t>(channels), bias, y + begin * channels);
  });
}

int64_t bias_backward_workspace(int64_t rows, int64_t channels) {
  return summed_chunks(rows, channels) * channels;
}

void bias_backward(Executor& executor, int64_t rows, int64_t channels, const float* dy, float* dbias,
                   float* workspace) {
  const int64_t grain = summed_rows_per_chunk(rows, channels);
  parallel_for(executor, rows, grain, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(sum_rows)
    (static_cast<size_t>(end - begin), static_cast<size_t>(channels), dy + begin * channels,
     workspace + begin / grain * channels);
  });
  const int64_t chunks = divide_up(rows, grain);
  if (chunks == 0) return;
  parallel_for(executor, channels, kSummedColumns, [&](int64_t begin, int64_t end, int) {
    add_partial_sums(chunks, channels, end - begin, workspace + begin, dbias + begin);
  });
}

void first_non_finite(Executor& executor, int64_t count, const float* x, int64_t* bad) {
  std::atomic<int64_t> first{count};  // only ever lowered: the result does not depend on the order
  parallel_for(executor, count, kChunkElements, [&](int64_t begin, int64_t end, int) {
    if (begin >= first.load(std::memory_order_relaxed)) return;
    const auto size = static_cast<size_t>(end - begin);
    const size_t found = HWY_DYNAMIC_DISPATCH(find_non_finite)(size, x + begin);
    if (found == size) return;
    const int64_t index = begin + static_cast<int64_t>(found);
    int64_t seen = first.load();
    while (index < seen && !first.compare_exchange_weak(seen, index)) {
    }
  });
  executor.run(1, [&](int64_t, int) { *bad = first.load() == count ? -1 : first.load(); });
}

}  // namespace tril
#endif  // HWY_ONCE
