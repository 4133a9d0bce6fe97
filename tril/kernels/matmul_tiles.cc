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

#include "tril/kernels/matmul_copy-inl.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

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
  const FloatTag d;
  FloatVector sum[kRows][kVectors];
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
    FloatVector bk[kVectors];
#pragma GCC unroll 8
    for (int j = 0; j < kVectors; ++j) bk[j] = hn::LoadU(d, b + j * kLanes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      const FloatVector ak = hn::Set(d, a[i * t.a.stride]);
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
      const float* x = edge + r * kWidth;
      float* c = tile.c + (i + r) * tile.ldc;
      for_each_vector(static_cast<size_t>(columns), [&](size_t j, auto access) HWY_ATTR {
        const FloatVector xj = access.load(x + j);
        access.store(tile.accumulate ? hn::Add(access.load(c + j), xj) : xj, c + j);
      });
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
      if (!direct && m0 == 0) {
        if (p.stored)
          copy_stored_panel(p, k0, depth, n0 + column, here, width * kLanes, buffers.stored, panel);
        else
          copy_panel(p, k0, depth, n0 + column, here, width * kLanes, panel);
      }
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
  // Copies pay where an operand is read often enough or its rows collide in the cache, and always turn a
  // transposed B. Measured on Zen 4 with AVX-512 and AVX2.
  const int64_t many_rows = p.ldb % 512 == 0 ? 32 : 128;
  const bool copy_b = p.stored || p.transpose_b == Transpose::kYes || p.m > many_rows;
  const bool copy_a = p.n > (p.transpose_a == Transpose::kYes ? 2 : 4) * kTileVectors * kLanes;
  // Equal parts: a short last one would cost as much traffic of C as a long one.
  const int64_t depth_step = p.stored ? kPassDepth : divide_up(p.k, divide_up(p.k, kPassDepth));
  const int64_t column_step =
      std::min(kPassColumns, round_up(divide_up(p.n, divide_up(p.n, kPassColumns)), kLanes));
  for (int64_t k0 = 0; k0 < p.k; k0 += depth_step) {
    for (int64_t n0 = 0; n0 < p.n; n0 += column_step) {
      multiply_pass(p, n0, std::min(column_step, p.n - n0), k0, std::min(depth_step, p.k - k0), copy_a,
                    copy_b);
    }
  }
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(tiles);

PassBuffers& pass_buffers() {
  thread_local const std::unique_ptr<PassBuffers> buffers = std::make_unique<PassBuffers>();
  return *buffers;
}

void matmul_tiles(const Product& block) { HWY_DYNAMIC_DISPATCH(tiles)(block); }

}  // namespace tril
#endif
