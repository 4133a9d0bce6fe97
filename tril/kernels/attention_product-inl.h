// The one product of attention's tiles: C = A B or C += A B, where each element of A is broadcast over
// vectors of B's columns.

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_PRODUCT_INL_H_
#undef TRIL_KERNELS_ATTENTION_PRODUCT_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_PRODUCT_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <cstdint>

#include "tril/kernels/attention_ahead.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Vector = hn::Vec<Floats>;
constexpr int64_t kLanes = hn::MaxLanes(Floats());
static_assert(kStrip % kLanes == 0 && kPad % kLanes == 0);

// Sums held in registers at once, rows x vectors: with 2 x 8 or 2 x 6 sums every loaded vector and every
// broadcast is used often enough, and the latency of MulAdd is covered.
constexpr int kBlockVectors = 2;
constexpr int kBlockRows = (HWY_TARGET == HWY_AVX3 || HWY_ARCH_ARM_A64) ? 8 : 6;

// How the broadcast operand lies in memory: element (row, step) at a[row * stride + step] or
// a[row + step * stride].
enum class Left { kByRows, kByColumns };

// C = sum. Both this and the next ask for what lies ahead, if there is anything, at each block of C.
struct Stored {
  Ahead* ahead = nullptr;
  HWY_INLINE void operator()(Vector sum, float* c) const { hn::StoreU(sum, Floats(), c); }
};

// C += sum. Adding a tile's sum, rather than continuing it, keeps the error of long rows small.
struct Added {
  Ahead* ahead = nullptr;
  HWY_INLINE void operator()(Vector sum, float* c) const {
    const Floats d;
    hn::StoreU(hn::Add(hn::LoadU(d, c), sum), d, c);
  }
};

template <Left kLeft, int kRows, int kVectors, class Finish>
HWY_INLINE void product_block(int64_t steps, const float* HWY_RESTRICT a, int64_t a_stride,
                              const float* HWY_RESTRICT b, int64_t b_stride, float* HWY_RESTRICT c,
                              int64_t c_stride, Finish finish) {
  const Floats d;
  Vector sum[kRows][kVectors];
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  for (int64_t step = 0; step < steps; ++step) {
    Vector right[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) right[v] = hn::LoadU(d, b + step * b_stride + v * kLanes);
    HWY_UNROLL(8)
    for (int r = 0; r < kRows; ++r) {
      const int64_t at = kLeft == Left::kByRows ? r * a_stride + step : r + step * a_stride;
      const Vector left = hn::Set(d, a[at]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(left, right[v], sum[r][v]);
    }
  }
  HWY_UNROLL(8)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) finish(sum[r][v], c + r * c_stride + v * kLanes);
  }
}

// Cache lines to ask for with a block of C: over the five products of backward (two of forward) on a tile, a
// little more than a head of 64 steps reads and writes.
constexpr int64_t lines_of_block(int64_t rows, int64_t vectors) { return rows * vectors * kLanes * 5 / 32; }

// All rows of C, kRows at a time and then fewer, for kVectors vectors of its columns.
template <Left kLeft, int kRows, int kVectors, class Finish>
HWY_INLINE void product_rows(int64_t rows, int64_t steps, const float* a, int64_t a_stride, const float* b,
                             int64_t b_stride, float* c, int64_t c_stride, Finish finish) {
  int64_t row = 0;
  for (; row + kRows <= rows; row += kRows) {
    const float* const a_row = kLeft == Left::kByRows ? a + row * a_stride : a + row;
    if (finish.ahead != nullptr) finish.ahead->ask(lines_of_block(kRows, kVectors));
    product_block<kLeft, kRows, kVectors>(steps, a_row, a_stride, b, b_stride, c + row * c_stride, c_stride,
                                          finish);
  }
  if constexpr (kRows > 1) {
    const float* const a_row = kLeft == Left::kByRows ? a + row * a_stride : a + row;
    product_rows<kLeft, kRows == 6 ? 4 : kRows / 2, kVectors>(rows - row, steps, a_row, a_stride, b, b_stride,
                                                              c + row * c_stride, c_stride, finish);
  }
}

// C (rows, columns) from A (rows, steps) and B (steps, columns); `columns` is a multiple of kLanes. Each
// element sums its steps in order, whatever the block it falls in.
template <Left kLeft, class Finish>
HWY_NOINLINE void product(int64_t rows, int64_t columns, int64_t steps, const float* a, int64_t a_stride,
                          const float* b, int64_t b_stride, float* c, int64_t c_stride, Finish finish) {
  int64_t column = 0;
  for (; column + kBlockVectors * kLanes <= columns; column += kBlockVectors * kLanes) {
    product_rows<kLeft, kBlockRows, kBlockVectors>(rows, steps, a, a_stride, b + column, b_stride, c + column,
                                                   c_stride, finish);
  }
  for (; column < columns; column += kLanes) {
    product_rows<kLeft, kBlockRows, 1>(rows, steps, a, a_stride, b + column, b_stride, c + column, c_stride,
                                       finish);
  }
}

// C += A B over the visible pairs only, for tiles whose hidden places hold a NaN or an infinity: 0 * NaN is
// not 0. The same sums in the same order as product().
template <class Visible>
HWY_NOINLINE void product_of_visible(int64_t rows, int64_t columns, int64_t steps, Visible visible,
                                     const float* a, int64_t a_row, int64_t a_step, const float* b, float* c,
                                     int64_t stride) {
  const Floats d;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; column += kLanes) {
      Vector sum = hn::Zero(d);
      for (int64_t step = 0; step < steps; ++step) {
        if (!visible(row, step)) continue;
        sum = hn::MulAdd(hn::Set(d, a[row * a_row + step * a_step]), hn::LoadU(d, b + step * stride + column),
                         sum);
      }
      Added()(sum, c + row * stride + column);
    }
  }
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_PRODUCT_INL_H_
