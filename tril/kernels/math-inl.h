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

// ln of the smallest normal number.
inline constexpr float kExpUnderflow = -87.33654f;

// exp(x) = 2^n exp(r) for x <= 0, x = n ln 2 + r, |r| <= ln(2) / 2: below 1 ulp. Results below the smallest
// normal number are 0: denormals cost much time and change nothing in a sum with 1.
template <class D, class V>
HWY_INLINE V exp_of_nonpositive(D d, V x) {
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
  // Shifting drops the high bits of 1.5 * 2^23; what is left of n goes into the exponent field of 1.
  const auto exponent = hn::Add(hn::ShiftLeft<23>(hn::BitCast(du, shifted)), hn::BitCast(du, one));
  const V scaled = hn::Mul(y, hn::BitCast(d, exponent));
  // Comparisons with NaN are false, and a NaN came through r.
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, kExpUnderflow)), hn::Zero(d), scaled);
}

// tanh x, error below 2 ulp. |x| < 0.625: x + x^3 q(x^2), minimax to 2^-27. Beyond, from e = exp(-2 |x|):
// (1 - e) / (1 + e).
template <class D, class V>
HWY_INLINE V vector_tanh(D d, V x) {
  const V one = hn::Set(d, 1.0f), size = hn::Abs(x), z = hn::Mul(x, x);
  V q = hn::Set(d, -0x1.75e1cap-8f);
  q = hn::MulAdd(q, z, hn::Set(d, 0x1.52269ap-6f));
  q = hn::MulAdd(q, z, hn::Set(d, -0x1.b83c5ap-5f));
  q = hn::MulAdd(q, z, hn::Set(d, 0x1.110726p-3f));
  q = hn::MulAdd(q, z, hn::Set(d, -0x1.555532p-2f));
  const V near = hn::MulAdd(hn::Mul(x, z), q, x);
  const V e = exp_of_nonpositive(d, hn::Mul(size, hn::Set(d, -2.0f)));
  const V far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), near, far);
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
