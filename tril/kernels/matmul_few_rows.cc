#include "tril/kernels/matmul_engine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/matmul_few_rows.cc"
#include <hwy/foreach_target.h>
// after foreach_target.h
#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include "tril/kernels/stored_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

constexpr int64_t kLanes = HWY_LANES(float);

// c_ij = sum_k a_ik b_jk for kRows rows of a and kColumns rows of b.
template <class Stored, int kRows, int kColumns>
HWY_INLINE void dot_tile(const Product& p, int64_t j0) {
  const FloatTag d;
  const std::byte* HWY_RESTRICT b = p.stored.at(j0, 0);
  const int64_t stride = p.stored.stride;
  FloatVector sum[kRows][kColumns];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) sum[i][j] = hn::Zero(d);
  }
  int64_t k = 0;
  for (; k + kLanes <= p.k; k += kLanes) {
    FloatVector ak[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) ak[i] = hn::LoadU(d, p.a + i * p.lda + k);
    // The next tile lies behind this one.
    const std::byte* const next = b + kColumns * (stride + k * Stored::kBytes);
    constexpr int64_t kStep = kColumns * kLanes * Stored::kBytes;
#pragma GCC unroll 8
    for (int64_t line = 0; line < kStep; line += 64) hwy::Prefetch(next + line);
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      const FloatVector bk = Stored::load(b + j * stride, k);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sum[i][j] = hn::MulAdd(ak[i], bk, sum[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      float total = hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
      for (int64_t rest = k; rest < p.k; ++rest)
        total += p.a[i * p.lda + rest] * Stored::one(b + j * stride, rest);
      float& c = p.c[i * p.ldc + j0 + j];
      c = p.accumulate ? c + total : total;
    }
  }
}

template <class Stored, int kRows>
void dot_rows(const Product& p) {
  constexpr int kColumns = kRows == 1 ? 8 : 4;
  int64_t j = 0;
  for (; j + kColumns <= p.n; j += kColumns) dot_tile<Stored, kRows, kColumns>(p, j);
  for (; j < p.n; ++j) dot_tile<Stored, kRows, 1>(p, j);
}

template <class Stored>
void dot_all(const Product& p) {
  static_assert(kFewRows == 4);
  if (p.m == 1) dot_rows<Stored, 1>(p);
  if (p.m == 2) dot_rows<Stored, 2>(p);
  if (p.m == 3) dot_rows<Stored, 3>(p);
  if (p.m == 4) dot_rows<Stored, 4>(p);
}

void few_rows(const Product& p) {
  if (p.stored.dtype == DType::kBF16) return dot_all<StoredBf16>(p);
  if (p.stored.dtype == DType::kF16) return dot_all<StoredF16>(p);
  dot_all<StoredF32>(p);
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {
HWY_EXPORT(few_rows);
void matmul_few_rows(const Product& block) {
  Product p = block;
  if (!p.stored) {
    p.stored.data = reinterpret_cast<const std::byte*>(block.b);
    p.stored.stride = block.ldb * static_cast<int64_t>(sizeof(float));
  }
  HWY_DYNAMIC_DISPATCH(few_rows)(p);
}
}  // namespace tril
#endif
