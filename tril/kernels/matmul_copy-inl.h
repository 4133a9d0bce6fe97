// Operands of register tiles: where they lie, and copies of them in the order in which tiles read them.
#if defined(TRIL_KERNELS_MATMUL_COPY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_MATMUL_COPY_INL_H_
#undef TRIL_KERNELS_MATMUL_COPY_INL_H_
#else
#define TRIL_KERNELS_MATMUL_COPY_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "tril/kernels/matmul_engine.h"
#include "tril/kernels/stored_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

constexpr int64_t kLanes = HWY_LANES(float);

// A tile of C is kTileRows x up to three vectors in registers: 24 accumulators where there are 32 registers,
// 12 where there are 16.
#if HWY_TARGET <= HWY_AVX3 || HWY_ARCH_ARM_A64
constexpr int kTileRows = 8;
#else
constexpr int kTileRows = 4;
#endif
constexpr int kTileVectors = 3;

// A as a pass sees it: row i of a strip of kTileRows, depth k, is at data[i * stride + k * depth_stride].
struct Strips {
  const float* data;
  int64_t stride;
  int64_t depth_stride;
  int64_t next;  // from one strip to the next
};

static_assert(kTileVectors * kLanes <= kPanelColumns);

// B, columns [0, vectors * kLanes) of which `columns` exist, -> dst[k][column], zeros beyond.
HWY_INLINE void copy_panel(const Product& p, int64_t k0, int64_t depth, int64_t n0, int64_t columns,
                           int64_t width, float* HWY_RESTRICT dst) {
  if (p.transpose_b == Transpose::kNo) {
    const FloatTag d;
    const float* src = p.b + k0 * p.ldb + n0;
    for (int64_t k = 0; k < depth; ++k, src += p.ldb, dst += width) {
      int64_t j = 0;
      for (; j + kLanes <= columns; j += kLanes) hn::Store(hn::LoadU(d, src + j), d, dst + j);
      for (; j < columns; ++j) dst[j] = src[j];
      for (; j < width; ++j) dst[j] = 0;
    }
    return;
  }
  const float* src = p.b + n0 * p.ldb + k0;
  int64_t j = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::Full128<float> d4;
  for (; j + 4 <= columns; j += 4, src += 4 * p.ldb) {
    int64_t k = 0;
    for (; k + 4 <= depth; k += 4) {
      const auto r0 = hn::LoadU(d4, src + k);
      const auto r1 = hn::LoadU(d4, src + p.ldb + k);
      const auto r2 = hn::LoadU(d4, src + 2 * p.ldb + k);
      const auto r3 = hn::LoadU(d4, src + 3 * p.ldb + k);
      const auto t0 = hn::InterleaveLower(d4, r0, r2), t1 = hn::InterleaveLower(d4, r1, r3);
      const auto t2 = hn::InterleaveUpper(d4, r0, r2), t3 = hn::InterleaveUpper(d4, r1, r3);
      float* out = dst + k * width + j;
      hn::Store(hn::InterleaveLower(d4, t0, t1), d4, out);
      hn::Store(hn::InterleaveUpper(d4, t0, t1), d4, out + width);
      hn::Store(hn::InterleaveLower(d4, t2, t3), d4, out + 2 * width);
      hn::Store(hn::InterleaveUpper(d4, t2, t3), d4, out + 3 * width);
    }
    for (; k < depth; ++k)
      for (int64_t i = 0; i < 4; ++i) dst[k * width + j + i] = src[i * p.ldb + k];
  }
#endif
  for (; j < width; ++j, src += p.ldb)
    for (int64_t k = 0; k < depth; ++k) dst[k * width + j] = j < columns ? src[k] : 0.0f;
}

// The same of a stored B, through floats.
void copy_stored_panel(const Product& p, int64_t k0, int64_t depth, int64_t n0, int64_t columns,
                       int64_t width, float* HWY_RESTRICT rows, float* HWY_RESTRICT dst) {
  constexpr int64_t kStride = kPassDepth + kPassPadding;
  for (int64_t j = 0; j < columns; ++j)
    widen(p.stored.dtype, depth, p.stored.at(n0 + j, k0), rows + j * kStride);
  const Product floats{.transpose_b = Transpose::kYes, .b = rows, .ldb = kStride};
  copy_panel(floats, 0, depth, 0, columns, width, dst);
}

// A, rows [m0, m0 + rows) -> strips of kTileRows rows as dst[strip][k][row], or rows with a longer stride.
Strips copy_a(const Product& p, int64_t m0, int64_t rows, int64_t k0, int64_t depth,
              float* HWY_RESTRICT dst) {
  const FloatTag d;
  if (p.transpose_a == Transpose::kNo) {
    const int64_t stride = depth + kPassPadding;
    for (int64_t i = 0; i < rows; ++i) {
      const float* src = p.a + (m0 + i) * p.lda + k0;
      int64_t k = 0;
      for (; k + kLanes <= depth; k += kLanes) hn::StoreU(hn::LoadU(d, src + k), d, dst + i * stride + k);
      for (; k < depth; ++k) dst[i * stride + k] = src[k];
    }
    return {dst, stride, 1, kTileRows * stride};
  }
  const int64_t next = depth * kTileRows + kPassPadding;
  // A few stored rows at a time: their lines are read in order and still cached when the next strip needs the
  // rest of them. (One row at a time, or 32, cost 10-20 % on tall weight gradients.)
  constexpr int64_t kGroup = 4;
  const hn::CappedTag<float, kTileRows> dt;
  constexpr int64_t kStep = HWY_MIN(kLanes, kTileRows);
  for (int64_t begin = 0; begin < depth; begin += kGroup) {
    const int64_t end = std::min<int64_t>(begin + kGroup, depth);
    for (int64_t i = 0; i < rows; i += kTileRows) {
      const float* src = p.a + (k0 + begin) * p.lda + m0 + i;
      float* out = dst + i / kTileRows * next + begin * kTileRows;
      const int64_t here = std::min<int64_t>(kTileRows, rows - i);
      for (int64_t k = begin; k < end; ++k, src += p.lda, out += kTileRows) {
        if (here == kTileRows) {
          for (int64_t j = 0; j < kTileRows; j += kStep) hn::StoreU(hn::LoadU(dt, src + j), dt, out + j);
        } else {
          for (int64_t j = 0; j < here; ++j) out[j] = src[j];
        }
      }
    }
  }
  return {dst, 1, kTileRows, next};
}

HWY_INLINE Strips operand_a(const Product& p, int64_t m0, int64_t k0) {
  if (p.transpose_a == Transpose::kNo) return {p.a + m0 * p.lda + k0, p.lda, 1, kTileRows * p.lda};
  return {p.a + k0 * p.lda + m0, 1, p.lda, kTileRows};
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
