#include "tril/kernels/matmul_engine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/matmul_tiles.cc"
#include <hwy/foreach_target.h>
// after foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#ifndef TRIL_KERNELS_MATMUL_TILES_ONCE
#define TRIL_KERNELS_MATMUL_TILES_ONCE
namespace tril {

// A pass multiplies at most kPassRows x kPassDepth of A by kPassDepth x kPassColumns of B; their copies stay
// in the second-level cache.
constexpr int64_t kPassRows = 96;
constexpr int64_t kPassColumns = 384;
constexpr int64_t kPassDepth = 512;
// Rows of a copy are this many floats longer, so that they do not fall on the same cache set.
constexpr int64_t kPadding = 16;

struct PassBuffers {
  alignas(64) float a[kPassRows * (kPassDepth + kPadding)];
  alignas(64) float b[kPassDepth * (kPassColumns + kPadding)];
};
PassBuffers& pass_buffers();

}  // namespace tril
#endif

HWY_BEFORE_NAMESPACE();
namespace tril {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
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

struct Tile {
  int64_t depth;
  Strips a;
  const float* b;
  int64_t b_stride;
  float* c;
  int64_t ldc;
  bool accumulate;
};

// C_ij = sum_k A_ik B_kj [+ C_ij] for kRows rows and kVectors vectors of columns.
template <int kRows, int kVectors>
HWY_NOINLINE void multiply_tile(const Tile& t) {
  const D d;
  V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::Zero(d);
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) hwy::Prefetch(t.c + i * t.ldc + j * kLanes);
  }
  const float* HWY_RESTRICT a = t.a.data;
  const float* HWY_RESTRICT b = t.b;
  for (int64_t k = 0; k < t.depth; ++k) {
    V bk[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) bk[j] = hn::LoadU(d, b + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const V ak = hn::Set(d, a[i * t.a.stride]);
#pragma GCC unroll 8
      for (int j = 0; j < kVectors; ++j) sum[i][j] = hn::MulAdd(ak, bk[j], sum[i][j]);
    }
    a += t.a.depth_stride;
    b += t.b_stride;
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) {
      float* c = t.c + i * t.ldc + j * kLanes;
      hn::StoreU(t.accumulate ? hn::Add(hn::LoadU(d, c), sum[i][j]) : sum[i][j], d, c);
    }
  }
}

template <int kVectors>
HWY_INLINE void multiply_rows(int64_t rows, Tile t) {
  for (; rows >= kTileRows; rows -= kTileRows) {
    multiply_tile<kTileRows, kVectors>(t);
    t.a.data += t.a.next;
    t.c += kTileRows * t.ldc;
  }
  const auto advance = [&](int n) {
    rows -= n;
    t.a.data += n * t.a.stride;
    t.c += n * t.ldc;
  };
  if (kTileRows > 4 && rows >= 4) multiply_tile<4, kVectors>(t), advance(4);
  if (rows >= 2) multiply_tile<2, kVectors>(t), advance(2);
  if (rows >= 1) multiply_tile<1, kVectors>(t), advance(1);
}

// B, columns [0, vectors * kLanes) of which `columns` exist, -> dst[k][column], zeros beyond.
HWY_INLINE void copy_panel(const Product& p, int64_t k0, int64_t depth, int64_t n0, int64_t columns,
                           int64_t width, float* HWY_RESTRICT dst) {
  if (p.transpose_b == Transpose::kNo) {
    const D d;
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

// A, rows [m0, m0 + rows) -> strips of kTileRows rows as dst[strip][k][row], or rows with a longer stride.
Strips copy_a(const Product& p, int64_t m0, int64_t rows, int64_t k0, int64_t depth,
              float* HWY_RESTRICT dst) {
  const D d;
  if (p.transpose_a == Transpose::kNo) {
    const int64_t stride = depth + kPadding;
    for (int64_t i = 0; i < rows; ++i) {
      const float* src = p.a + (m0 + i) * p.lda + k0;
      int64_t k = 0;
      for (; k + kLanes <= depth; k += kLanes) hn::StoreU(hn::LoadU(d, src + k), d, dst + i * stride + k);
      for (; k < depth; ++k) dst[i * stride + k] = src[k];
    }
    return {dst, stride, 1, kTileRows * stride};
  }
  const int64_t next = depth * kTileRows + kPadding;
  const hn::CappedTag<float, kTileRows> dt;
  constexpr int64_t kStep = HWY_MIN(kLanes, kTileRows);
  for (int64_t k = 0; k < depth; ++k) {
    const float* src = p.a + (k0 + k) * p.lda + m0;
    float* out = dst + k * kTileRows;
    int64_t i = 0;
    for (; i + kTileRows <= rows; i += kTileRows, out += next)
      for (int64_t j = 0; j < kTileRows; j += kStep) hn::StoreU(hn::LoadU(dt, src + i + j), dt, out + j);
    for (int64_t j = 0; i + j < rows; ++j) out[j] = src[i + j];
  }
  return {dst, 1, kTileRows, next};
}

HWY_INLINE Strips operand_a(const Product& p, int64_t m0, int64_t k0) {
  if (p.transpose_a == Transpose::kNo) return {p.a + m0 * p.lda + k0, p.lda, 1, kTileRows * p.lda};
  return {p.a + k0 * p.lda + m0, 1, p.lda, kTileRows};
}

// The columns of the last panel that do not fill its vectors go through a buffer.
void multiply_edge(int64_t rows, int64_t columns, int64_t vectors, const Tile& tile) {
  constexpr int64_t kWidth = kTileVectors * kLanes;
  HWY_ALIGN float edge[kTileRows * kWidth];
  Tile t = tile;
  t.c = edge;
  t.ldc = kWidth;
  t.accumulate = false;
  for (int64_t i = 0; i < rows; i += kTileRows) {
    const int64_t strip = std::min<int64_t>(kTileRows, rows - i);
    if (vectors == 3) {
      multiply_rows<3>(strip, t);
    } else if (vectors == 2) {
      multiply_rows<2>(strip, t);
    } else {
      multiply_rows<1>(strip, t);
    }
    t.a.data += t.a.next;
    for (int64_t r = 0; r < strip; ++r) {
      float* c = tile.c + (i + r) * tile.ldc;
      for (int64_t j = 0; j < columns; ++j) c[j] = edge[r * kWidth + j] + (tile.accumulate ? c[j] : 0.0f);
    }
  }
}

HWY_INLINE void multiply_panel(int64_t rows, int64_t columns, int64_t vectors, const Tile& tile) {
  if (columns < vectors * kLanes) return multiply_edge(rows, columns, vectors, tile);
  if (vectors == 3) return multiply_rows<3>(rows, tile);
  if (vectors == 2) return multiply_rows<2>(rows, tile);
  return multiply_rows<1>(rows, tile);
}

// Widths of panels in vectors: threes, but never a lone one after a three.
HWY_INLINE int64_t panel_vectors(int64_t left) {
  return left == 4 ? 2 : std::min<int64_t>(left, kTileVectors);
}

void multiply_pass(const Product& p, int64_t n0, int64_t columns, int64_t k0, int64_t depth, bool copy_a_too,
                   bool copy_b) {
  PassBuffers& buffers = pass_buffers();
  const int64_t vectors = divide_up(columns, kLanes);
  const bool accumulate = p.accumulate || k0 > 0;
  for (int64_t m0 = 0; m0 < p.m; m0 += kPassRows) {
    const int64_t rows = std::min(kPassRows, p.m - m0);
    const Strips a = copy_a_too ? copy_a(p, m0, rows, k0, depth, buffers.a) : operand_a(p, m0, k0);
    for (int64_t v = 0, width; v < vectors; v += width) {
      width = panel_vectors(vectors - v);
      const int64_t column = v * kLanes, here = std::min(width * kLanes, columns - column);
      const bool direct = !copy_b && here == width * kLanes;
      float* panel = buffers.b + column * depth;
      if (!direct && m0 == 0) copy_panel(p, k0, depth, n0 + column, here, width * kLanes, panel);
      const Tile tile{depth,
                      a,
                      direct ? p.b + k0 * p.ldb + n0 + column : panel,
                      direct ? p.ldb : width * kLanes,
                      p.c + m0 * p.ldc + n0 + column,
                      p.ldc,
                      accumulate};
      multiply_panel(rows, here, width, tile);
    }
  }
}

void tiles(const Product& p) {
  // Copies pay where an operand is read often enough, and always turn a transposed B. Measured on Zen 4 with
  // AVX-512 and AVX2.
  const bool copy_b = p.transpose_b == Transpose::kYes || p.m > 128;
  const bool copy_a = p.n > (p.transpose_a == Transpose::kYes ? 2 : 4) * kTileVectors * kLanes;
  // Equal parts: a short last one would cost as much traffic of C as a long one.
  const int64_t depth_step = divide_up(p.k, divide_up(p.k, kPassDepth));
  const int64_t column_step =
      std::min(kPassColumns, round_up(divide_up(p.n, divide_up(p.n, kPassColumns)), kLanes));
  for (int64_t k0 = 0; k0 < p.k; k0 += depth_step) {
    for (int64_t n0 = 0; n0 < p.n; n0 += column_step) {
      multiply_pass(p, n0, std::min(column_step, p.n - n0), k0, std::min(depth_step, p.k - k0), copy_a,
                    copy_b);
    }
  }
}

void add_partials(int64_t count, int64_t partials, const float* partial, int64_t stride, float* c) {
  const D d;
  int64_t j = 0;
  for (; j + kLanes <= count; j += kLanes) {
    V sum = hn::LoadU(d, c + j);
    for (int64_t i = 0; i < partials; ++i) sum = hn::Add(sum, hn::LoadU(d, partial + i * stride + j));
    hn::StoreU(sum, d, c + j);
  }
  for (; j < count; ++j)
    for (int64_t i = 0; i < partials; ++i) c[j] += partial[i * stride + j];
}

}  // namespace HWY_NAMESPACE
}  // namespace tril
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(tiles);
HWY_EXPORT(add_partials);

PassBuffers& pass_buffers() {
  thread_local const std::unique_ptr<PassBuffers> buffers = std::make_unique<PassBuffers>();
  return *buffers;
}

void matmul_tiles(const Product& block) { HWY_DYNAMIC_DISPATCH(tiles)(block); }

void matmul_add_partials(int64_t count, int64_t partials, const float* partial, int64_t stride, float* c) {
  HWY_DYNAMIC_DISPATCH(add_partials)(count, partials, partial, stride, c);
}

}  // namespace tril
#endif
