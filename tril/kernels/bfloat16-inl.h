// Rows of bfloat16 as floats, and back. The values must not be NaN.
#if defined(TRIL_KERNELS_BFLOAT16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_BFLOAT16_INL_H_
#undef TRIL_KERNELS_BFLOAT16_INL_H_
#else
#define TRIL_KERNELS_BFLOAT16_INL_H_
#endif

#include "hwy/highway.h"
#include "tril/kernels/bfloat16.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {

using HalfTag = hn::Rebind<uint16_t, FloatTag>;
using FloatBitsTag = hn::RebindToUnsigned<FloatTag>;

// The upper halves of x.
HWY_INLINE void store_upper_halves(hn::Vec<FloatBitsTag> x, Bfloat16* y) {
  const hn::RebindToSigned<FloatTag> d;  // from which narrowing saturates at 0 and 2^16 - 1 everywhere
  hn::StoreU(hn::DemoteTo(HalfTag(), hn::BitCast(d, hn::ShiftRight<16>(x))), HalfTag(), &y->bits);
}

// A whole vector of floats.
HWY_INLINE FloatVector load_halves(const Bfloat16* x) {
  const FloatBitsTag db;
  return hn::BitCast(FloatTag(), hn::ShiftLeft<16>(hn::PromoteTo(db, hn::LoadU(HalfTag(), &x->bits))));
}

HWY_INLINE void floats_of(size_t count, const Bfloat16* x, float* y) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(load_halves(x + i), d, y + i);
  for (; i < count; ++i) y[i] = to_float(x[i]);
}

// To the nearest; of two equally near ones the one whose last bit is 0.
HWY_INLINE void round_to_nearest(size_t count, const float* x, Bfloat16* y) {
  const FloatTag d;
  const FloatBitsTag db;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(db, hn::LoadU(d, x + i));
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(db, 1u));
    store_upper_halves(hn::Add(bits, hn::Add(odd, hn::Set(db, 0x7FFFu))), y + i);
  }
  for (; i < count; ++i) y[i] = to_bfloat16(x[i]);
}

// To one of the two neighbours, the farther from zero with the probability (|x| - nearer) / (farther -
// nearer): right on average. words (count): random.
HWY_INLINE void round_stochastically(size_t count, const uint32_t* words, const float* x, Bfloat16* y) {
  const FloatTag d;
  const FloatBitsTag db;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto bits = hn::BitCast(db, hn::LoadU(d, x + i));
    store_upper_halves(hn::Add(bits, hn::ShiftRight<16>(hn::LoadU(db, words + i))), y + i);
  }
  for (; i < count; ++i)
    y[i].bits = static_cast<uint16_t>((std::bit_cast<uint32_t>(x[i]) + (words[i] >> 16)) >> 16);
}

}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
