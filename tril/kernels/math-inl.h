// Elementary functions of float vectors. All propagate NaN and are right at zeros, denormals and infinities,
// with or without fused multiply-add. Polynomials: minimax fits in relative error, made for this file.
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

// x = n ln 2 + r, |r| <= ln(2) / 2.
template <class D>
struct ExpArgument {
  hn::Vec<D> r;
  hn::Vec<hn::RebindToUnsigned<D>> n;  // as a 32-bit two's complement number
};

template <class D, class V>
HWY_INLINE ExpArgument<D> reduce_exp_argument(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const V shift = hn::Set(d, 0x1.8p23f);
  const V shifted = hn::MulAdd(x, hn::Set(d, 0x1.715476p0f), shift);
  const V n = hn::Sub(shifted, shift);
  // ln 2 in two parts, the first so short that n times it is exact.
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693359375f), x);
  r = hn::NegMulAdd(n, hn::Set(d, -2.12194440e-4f), r);
  return {r, hn::Sub(hn::BitCast(du, shifted), hn::BitCast(du, shift))};
}

// exp(r) - 1 = r + r^2 q(r) for |r| <= ln(2) / 2; relative error of 1 + that: 2^-28.
template <class D, class V>
HWY_INLINE V exp_minus_one_reduced(D d, V r) {
  V q = hn::MulAdd(r, hn::Set(d, 0x1.6a2248p-10f), hn::Set(d, 0x1.123b04p-7f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.5558f8p-5f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.555490p-3f));
  q = hn::MulAdd(q, r, hn::Set(d, 0x1.fffffcp-2f));
  return hn::MulAdd(hn::Mul(r, r), q, r);
}

// 2^n for n in [-126, 127].
template <class D, class VU>
HWY_INLINE hn::Vec<D> power_of_two(D d, VU n) {
  const hn::RebindToUnsigned<D> du;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(n, hn::Set(du, 127))));
}

// exp(x), below 1 ulp; denormal results are exact to rounding.
template <class D, class V>
HWY_INLINE V vector_exp(D d, V x) {
  const hn::RebindToSigned<D> di;
  const hn::RebindToUnsigned<D> du;
  const ExpArgument<D> a = reduce_exp_argument(d, x);
  const V y = hn::Add(exp_minus_one_reduced(d, a.r), hn::Set(d, 1.0f));
  // 2^n in two factors: n is in [-150, 129].
  const auto half = hn::BitCast(du, hn::ShiftRight<1>(hn::BitCast(di, a.n)));
  const V scaled = hn::Mul(hn::Mul(y, power_of_two(d, half)), power_of_two(d, hn::Sub(a.n, half)));
  const V infinity = hn::Set(d, __builtin_inff());
  const V top = hn::IfThenElse(hn::Gt(x, hn::Set(d, 89.0f)), infinity, scaled);
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -104.0f)), hn::Zero(d), top);
}

// tanh(x) = m / (m + 2), m = exp(2|x|) - 1, with the sign of x; below 2 ulp.
template <class D, class V>
HWY_INLINE V vector_tanh(D d, V x) {
  const V ten = hn::Set(d, 10.0f);  // tanh(10) rounds to 1
  const V magnitude = hn::Abs(x);
  const V bounded = hn::IfThenElse(hn::Gt(magnitude, ten), ten, magnitude);
  const ExpArgument<D> a = reduce_exp_argument(d, hn::Add(bounded, bounded));
  const V scale = power_of_two(d, a.n);
  const V m = hn::MulAdd(exp_minus_one_reduced(d, a.r), scale, hn::Sub(scale, hn::Set(d, 1.0f)));
  return hn::CopySign(hn::Div(m, hn::Add(m, hn::Set(d, 2.0f))), x);
}

// erfc(a) exp(a^2) for 0 <= a <= 10.7: p(q) / (a + 3), q = (a - 3) / (a + 3).
template <class D, class V>
HWY_INLINE V vector_scaled_erfc(D d, V a) {
  const V three = hn::Set(d, 3.0f);
  const V inverse = hn::Div(hn::Set(d, 1.0f), hn::Add(a, three));
  const V q = hn::Mul(hn::Sub(a, three), inverse);
  V p = hn::MulAdd(q, hn::Set(d, -0.00032230117358267307f), hn::Set(d, -0.00047738294233568013f));
  p = hn::MulAdd(p, q, hn::Set(d, 0.0030814430210739374f));
  p = hn::MulAdd(p, q, hn::Set(d, -0.001229548710398376f));
  p = hn::MulAdd(p, q, hn::Set(d, -0.02684096433222294f));
  p = hn::MulAdd(p, q, hn::Set(d, 0.1195296123623848f));
  p = hn::MulAdd(p, q, hn::Set(d, -0.31046581268310547f));
  p = hn::MulAdd(p, q, hn::Set(d, 0.590228259563446f));
  p = hn::MulAdd(p, q, hn::Set(d, -0.8833944797515869f));
  p = hn::MulAdd(p, q, hn::Set(d, 1.0740069150924683f));
  return hn::Mul(p, inverse);
}

}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
