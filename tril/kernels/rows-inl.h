// Loops over rows of floats: whole vectors, then the rest without touching memory outside the row.
#if defined(TRIL_KERNELS_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ROWS_INL_H_
#undef TRIL_KERNELS_ROWS_INL_H_
#else
#define TRIL_KERNELS_ROWS_INL_H_
#endif

#include <algorithm>
#include <cstddef>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::ScalableTag<float>;
using FloatVector = hn::Vec<FloatTag>;

// A whole vector at p.
struct WholeVector {
  HWY_INLINE FloatVector load(const float* p) const { return hn::LoadU(FloatTag(), p); }
  HWY_INLINE void store(FloatVector v, float* p) const { hn::StoreU(v, FloatTag(), p); }
  // v in the lanes that exist, `other` elsewhere.
  HWY_INLINE FloatVector keep(FloatVector v, FloatVector) const { return v; }
};

// The first `count` lanes of a vector at p; the others load as zero and are not stored.
struct FirstLanes {
  size_t count;

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  HWY_INLINE FloatVector load(const float* p) const {
    const FloatTag d;
    return hn::MaskedLoad(hn::FirstN(d, count), d, p);
  }
  HWY_INLINE void store(FloatVector v, float* p) const {
    const FloatTag d;
    hn::BlendedStore(v, hn::FirstN(d, count), d, p);
  }
#else
  // Masked memory access is not an instruction here, and Highway's replacement touches whole vectors.
  HWY_INLINE FloatVector load(const float* p) const {
    const FloatTag d;
    HWY_ALIGN float lanes[hn::MaxLanes(FloatTag())] = {};
    std::copy(p, p + count, lanes);
    return hn::Load(d, lanes);
  }
  HWY_INLINE void store(FloatVector v, float* p) const {
    const FloatTag d;
    HWY_ALIGN float lanes[hn::MaxLanes(FloatTag())];
    hn::Store(v, d, lanes);
    std::copy(lanes, lanes + count, p);
  }
#endif
  HWY_INLINE FloatVector keep(FloatVector v, FloatVector other) const {
    return hn::IfThenElse(hn::FirstN(FloatTag(), count), v, other);
  }
};

// body(i, access) for the vectors of [0, count); access loads and stores at element i.
template <class Body>
HWY_INLINE void for_each_vector(size_t count, const Body& body) {
  const size_t lanes = hn::Lanes(FloatTag());
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) body(i, WholeVector{});
  if (i < count) body(i, FirstLanes{count - i});
}

// Elements whose sum is kept in float; longer sums go on in double.
inline constexpr size_t kSumBlock = 4096;

// Sum of the vectors term(i, access) over [0, count).
template <class Term>
HWY_INLINE double sum_of(size_t count, const Term& term) {
  const FloatTag d;
  const size_t lanes = hn::Lanes(d);
  double total = 0;
  for (size_t i = 0; i < count;) {
    const size_t end = std::min(count, i + kSumBlock);
    FloatVector s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
    for (; i + 4 * lanes <= end; i += 4 * lanes) {
      s0 = hn::Add(s0, term(i, WholeVector{}));
      s1 = hn::Add(s1, term(i + lanes, WholeVector{}));
      s2 = hn::Add(s2, term(i + 2 * lanes, WholeVector{}));
      s3 = hn::Add(s3, term(i + 3 * lanes, WholeVector{}));
    }
    for (; i + lanes <= end; i += lanes) s0 = hn::Add(s0, term(i, WholeVector{}));
    if (i < end) {
      const FirstLanes rest{end - i};
      s1 = hn::Add(s1, rest.keep(term(i, rest), hn::Zero(d)));
      i = end;
    }
    total += hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  }
  return total;
}

}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
