#include "tril/kernels/matmul_engine.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/matmul_few_rows.cc"
#include <hwy/foreach_target.h>
// after foreach_target.h
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = HWY_LANES(float);

// c_ij = sum_k a_ik b_jk for kRows rows of a and kColumns rows of b.
template <int kRows, int kColumns>
HWY_INLINE void dot_tile(const Product& p, int64_t j0) {
  const D d;
  const float* HWY_RESTRICT b = p.b + j0 * p.ldb;
  V sum[kRows][kColumns];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) sum[i][j] = hn::Zero(d);
  }
  int64_t k = 0;
  for (; k + kLanes <= p.k; k += kLanes) {
    V ak[kRows];
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) ak[i] = hn::LoadU(d, p.a + i * p.lda + k);
#pragma GCC unroll 8
    for (int j = 0; j < kColumns; ++j) {
      const V bk = hn::LoadU(d, b + j * p.ldb + k);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) sum[i][j] = hn::MulAdd(ak[i], bk, sum[i][j]);
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      float total = hn::GetLane(hn::SumOfLanes(d, sum[i][j]));
      for (int64_t rest = k; rest < p.k; ++rest) total += p.a[i * p.lda + rest] * b[j * p.ldb + rest];
      float& c = p.c[i * p.ldc + j0 + j];
      c = p.accumulate ? c + total : total;
    }
  }
}

template <int kRows>
void dot_rows(const Product& p) {
  constexpr int kColumns = kRows == 1 ? 8 : 4;
  int64_t j = 0;
  for (; j + kColumns <= p.n; j += kColumns) dot_tile<kRows, kColumns>(p, j);
  for (; j < p.n; ++j) dot_tile<kRows, 1>(p, j);
}

void few_rows(const Product& p) {
  static_assert(kFewRows == 4);
  if (p.m == 1) dot_rows<1>(p);
  if (p.m == 2) dot_rows<2>(p);
  if (p.m == 3) dot_rows<3>(p);
  if (p.m == 4) dot_rows<4>(p);
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {
HWY_EXPORT(few_rows);
void matmul_few_rows(const Product& block) { HWY_DYNAMIC_DISPATCH(few_rows)(block); }
}  // namespace tril
#endif
