// The parts of a softmax over one row.
#if defined(TRIL_KERNELS_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_SOFTMAX_INL_H_
#undef TRIL_KERNELS_SOFTMAX_INL_H_
#else
#define TRIL_KERNELS_SOFTMAX_INL_H_
#endif

#include "hwy/highway.h"
#include "tril/kernels/math-inl.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {

// The largest element; -inf of none. With NaN in the row: any element or NaN.
HWY_INLINE float row_max(size_t count, const float* x) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  const FloatVector lowest = hn::Set(d, -__builtin_inff());
  FloatVector m0 = lowest, m1 = lowest, m2 = lowest, m3 = lowest;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    m0 = hn::Max(m0, hn::LoadU(d, x + i));
    m1 = hn::Max(m1, hn::LoadU(d, x + i + lanes));
    m2 = hn::Max(m2, hn::LoadU(d, x + i + 2 * lanes));
    m3 = hn::Max(m3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for_each_vector(count - i, [&](size_t j, auto access)
                                 HWY_ATTR { m0 = hn::Max(m0, access.keep(access.load(x + i + j), lowest)); });
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3))));
}

// sum exp(x - max); with kStore x is overwritten by the terms.
template <bool kStore>
HWY_INLINE double exp_and_sum(size_t count, float max, float* x) {
  const FloatTag d;
  const FloatVector shift = hn::Set(d, max);
  return sum_of(count, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector e = exp_of_nonpositive(d, hn::Sub(access.load(x + i), shift));
    if constexpr (kStore) access.store(e, x + i);
    return e;
  });
}

HWY_INLINE void scale_row(size_t count, float factor, float* x) {
  const FloatVector f = hn::Set(FloatTag(), factor);
  for_each_vector(
      count, [&](size_t i, auto access) HWY_ATTR { access.store(hn::Mul(access.load(x + i), f), x + i); });
}

// x = factor x + shift
HWY_INLINE void scale_and_shift_row(size_t count, float factor, float shift, float* x) {
  const FloatVector f = hn::Set(FloatTag(), factor), s = hn::Set(FloatTag(), shift);
  for_each_vector(count, [&](size_t i, auto access)
                             HWY_ATTR { access.store(hn::MulAdd(access.load(x + i), f, s), x + i); });
}

}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
