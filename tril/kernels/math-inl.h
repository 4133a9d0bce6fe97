// Elementary functions of float vectors, right at zeros, denormals, infinities and NaN, with or without fused
// multiply-add. Polynomials: minimax fits in relative error, made for this file.
#if defined(TRIL_KERNELS_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_MATH_INL_H_
#undef TRIL_KERNELS_MATH_INL_H_
#else
#define TRIL_KERNELS_MATH_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 2^n for n in [-126, 127].
template <class D, class VU>
HWY_INLINE hn::Vec<D> power_of_two(D d, VU n) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(du, 127))));
}

// exp(x) = 2^n exp(r), x = n ln 2 + r, |r| <= ln(2) / 2: below 1 ulp; denormal results are rounded once.
template <class D, class V>
HWY_INLINE V vector_exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const V one = hn::Set(d, 1.0f);
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const V shift = hn::Set(d, 0x1.8p23f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p0f), shift);
  const V n = hn::Sub(shifted, shift);
  // ln 2 in two parts, the first so short that n times it is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  // exp(r) = 1 + r + r^2 q(r), relative error 2^-28
  V q = hn::MulAdd(r, hn::Set(d, 0x1.6a2248p-10f), hn::Set(d, 0x1.123b04p-7f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.5558f8p-5f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.55549p-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.fffffcp-2f));
  const V y = hn::Add(hn::MulAdd(hn::Mul(r, r), q, r), one);
  // 2^n in two factors, since n is in [-150, 129].
  const auto bits = hn::Sub(hn::BitCast(du, shifted), hn::BitCast(du, shift));
  const auto half = hn::BitCast(du, hn::ShiftRight<1>(hn::BitCast(di, bits)));
  const V scaled = hn::Mul(hn::Mul(y, power_of_two(d, half)), power_of_two(d, hn::Sub(bits, half)));
  // Comparisons with NaN are false, and a NaN came through r.
  const V finite = hn::IfThenElse(hn::Gt(x, hn::Set(d, 89.0f)), hn::Set(d, __builtin_inff()), scaled);
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -104.0f)), hn::Zero(d), finite);
}

// erfc(a) exp(a^2) for 0 <= a <= 10.7: p(s) / (a + 2), s = a / (a + 2); below 5 ulp, below 4 for a < 4.
template <class D, class V>
HWY_INLINE V vector_scaled_erfc(D d, V a) {
  const V inverse = hn::Div(hn::Set(d, 1.0f), hn::Add(a, hn::Set(d, 2.0f)));
  const V s = hn::Mul(a, inverse);
  V p = hn::MulAdd(s, hn::Set(d, -0x1.50011ep-6f), hn::Set(d, -0x1.4b3abp-5f));
  p = hn::MulAdd(p, s, hn::Set(d, 0x1.031654p-2f));
  p = hn::MulAdd(p, s, hn::Set(d, -0x1.8b5352p-3f));
  p = hn::MulAdd(p, s, hn::Set(d, -0x1.94b16p-4f));
  p = hn::MulAdd(p, s, hn::Set(d, -0x1.c789c2p-3f));
  p = hn::MulAdd(p, s, hn::Set(d, 0x1.b569dep-2f));
  p = hn::MulAdd(p, s, hn::Set(d, 0x1.f2023cp-1f));
  p = hn::MulAdd(p, s, hn::Set(d, -0x1.41baap1f));
  p = hn::MulAdd(p, s, hn::Set(d, 0x1p1f));
  return hn::Mul(p, inverse);
}

}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
