// Softmax over score tiles [key][query]: queries lie in the lanes, so maxima and sums over the keys are
// vertical.

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_SOFTMAX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_SOFTMAX_INL_H_
#undef TRIL_KERNELS_ATTENTION_SOFTMAX_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_SOFTMAX_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <limits>

#include "tril/kernels/attention_product-inl.h"
#include "tril/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Integers = hn::RebindToSigned<Floats>;
using Unsigned = hn::RebindToUnsigned<Floats>;
using FloatMask = hn::Mask<Floats>;

using tril::HWY_NAMESPACE::exp_of_nonpositive;

// The maximum before any key: finite, so that its difference to itself is 0 and not NaN.
constexpr float kLowest = std::numeric_limits<float>::lowest();

// Lanes q, q + 1, ... that see key row k.
HWY_INLINE FloatMask visible(const Tile& tile, int64_t k, int64_t q) {
  const Floats d;
  const Integers di;
  const auto row = hn::Iota(di, static_cast<int32_t>(q));
  // k - last <= q < k - before; every q in the prefix.
  const int64_t first = k < tile.prefix ? 0 : k - tile.last, end = k < tile.prefix ? kTile : k - tile.before;
  auto seen = hn::AndNot(hn::Lt(row, hn::Set(di, static_cast<int32_t>(first))),
                         hn::Lt(row, hn::Set(di, static_cast<int32_t>(end))));
  if (tile.by_document) {
    const int32_t document = tile.key_documents[k];
    const auto same = hn::Eq(hn::LoadU(di, tile.query_documents + q), hn::Set(di, document));
    seen = document < 0 ? hn::Xor(seen, seen) : hn::And(seen, same);
  }
  return hn::RebindMask(d, seen);
}

struct AllVisible {
  HWY_INLINE FloatMask operator()(int64_t, int64_t) const {
    return hn::MaskFromVec(hn::BitCast(Floats(), hn::Set(Integers(), -1)));
  }
  static HWY_INLINE Vector scores(FloatMask, Vector s) { return s; }
  static HWY_INLINE Vector weights(FloatMask, Vector p) { return p; }
};

struct PartVisible {
  const Tile& tile;
  HWY_INLINE FloatMask operator()(int64_t k, int64_t q) const { return visible(tile, k, q); }
  // Selected after the product: what a hidden place held is gone, NaN or not.
  static HWY_INLINE Vector scores(FloatMask m, Vector s) {
    return hn::IfThenElse(m, s, hn::Set(Floats(), kLowest));
  }
  static HWY_INLINE Vector weights(FloatMask m, Vector p) { return hn::IfThenElseZero(m, p); }
};

// The key rows whose scores were computed for the lanes from q on, one past the last of them, and the first:
// the strips [k0, k1) with first_query(k0) <= q < end_query(k1).
inline int64_t scored_keys(const Tile& tile, int64_t q) {
  return std::min(tile.keys, round_up(tile.last_key(q / kStrip * kStrip + kStrip), tile.strip()));
}
inline int64_t first_scored(const Tile& tile, int64_t q) {
  return tile.first_key(q / kStrip * kStrip) / tile.strip() * tile.strip();
}

// m' = max(m, max_j s_ij), decay = exp(m - m'), p_ij = exp(s_ij - m') in place of s_ij,
// l' = decay l + sum_j p_ij.
template <class Visible>
HWY_INLINE void running_softmax_of(const Tile& tile, Visible see, float* scores, float* maximum, float* sum,
                                   float* decay) {
  const Floats d;
  for (int64_t q = 0; q < tile.queries; q += kLanes) {
    const int64_t first = first_scored(tile, q), keys = scored_keys(tile, q);
    const Vector before = hn::LoadU(d, maximum + q);
    Vector m = before;
    for (int64_t k = first; k < keys; ++k) {
      m = hn::Max(m, Visible::scores(see(k, q), hn::LoadU(d, scores + k * kTileStride + q)));
    }
    Vector l = hn::Zero(d);
    for (int64_t k = first; k < keys; ++k) {
      float* const at = scores + k * kTileStride + q;
      const Vector p = Visible::weights(see(k, q), exp_of_nonpositive(d, hn::Sub(hn::LoadU(d, at), m)));
      l = hn::Add(l, p);
      hn::StoreU(p, d, at);
    }
    const Vector fade = exp_of_nonpositive(d, hn::Sub(before, m));
    hn::StoreU(m, d, maximum + q);
    hn::StoreU(fade, d, decay + q);
    hn::StoreU(hn::MulAdd(hn::LoadU(d, sum + q), fade, l), d, sum + q);
  }
}

HWY_NOINLINE void running_softmax(const Tile& tile, float* scores, float* maximum, float* sum, float* decay) {
  if (tile.sight == Sight::kAll) {
    running_softmax_of(tile, AllVisible(), scores, maximum, sum, decay);
  } else {
    running_softmax_of(tile, PartVisible{tile}, scores, maximum, sum, decay);
  }
}

// p_ij = exp(s_ij - m_i) / l_i in place of s_ij.
template <class Visible>
HWY_INLINE void weights_of(const Tile& tile, Visible see, const float* maximum, const float* inverse_sum,
                           float* scores) {
  const Floats d;
  for (int64_t q = 0; q < tile.queries; q += kLanes) {
    const int64_t first = first_scored(tile, q), keys = scored_keys(tile, q);
    const Vector m = hn::LoadU(d, maximum + q), inverse = hn::LoadU(d, inverse_sum + q);
    for (int64_t k = first; k < keys; ++k) {
      float* const at = scores + k * kTileStride + q;
      const Vector p = hn::Mul(exp_of_nonpositive(d, hn::Sub(hn::LoadU(d, at), m)), inverse);
      hn::StoreU(Visible::weights(see(k, q), p), d, at);
    }
  }
}

HWY_NOINLINE void recompute_weights(const Tile& tile, const float* maximum, const float* inverse_sum,
                                    float* scores) {
  if (tile.sight == Sight::kAll) {
    weights_of(tile, AllVisible(), maximum, inverse_sum, scores);
  } else {
    weights_of(tile, PartVisible{tile}, maximum, inverse_sum, scores);
  }
}

// The factors of dropout, at an offset in the tile.
struct WithKeep {
  const float* keep;
  HWY_INLINE Vector dp(Vector x, int64_t at) const { return hn::Mul(x, hn::LoadU(Floats(), keep + at)); }
  HWY_INLINE void weight(Vector p, float* weights, int64_t at) const {
    hn::StoreU(dp(p, at), Floats(), weights + at);
  }
};
struct WithoutKeep {
  HWY_INLINE Vector dp(Vector x, int64_t) const { return x; }
  HWY_INLINE void weight(Vector, float*, int64_t) const {}
};

// ds_ij = p_ij (keep_ij dp_ij - delta_i) in place of dp_ij, times slopes_ij if there are any; then p_ij *=
// keep_ij.
template <class Visible, class Keep>
HWY_INLINE void dscores_of(const Tile& tile, Visible see, const float* delta, const float* slopes, Keep keep,
                           float* weights, float* dscores) {
  const Floats d;
  for (int64_t q = 0; q < tile.queries; q += kLanes) {
    const int64_t first = first_scored(tile, q), keys = scored_keys(tile, q);
    const Vector mean = hn::LoadU(d, delta + q);
    for (int64_t k = first; k < keys; ++k) {
      const int64_t at = k * kTileStride + q;
      const Vector p = hn::LoadU(d, weights + at);
      Vector ds = hn::Mul(p, hn::Sub(keep.dp(hn::LoadU(d, dscores + at), at), mean));
      if (slopes != nullptr) ds = hn::Mul(ds, hn::LoadU(d, slopes + at));
      hn::StoreU(Visible::weights(see(k, q), ds), d, dscores + at);
      keep.weight(p, weights, at);
    }
  }
}

template <class Keep>
HWY_NOINLINE void softmax_backward(const Tile& tile, const float* delta, const float* slopes, Keep keep,
                                   float* weights, float* dscores) {
  if (tile.sight == Sight::kAll) {
    dscores_of(tile, AllVisible(), delta, slopes, keep, weights, dscores);
  } else {
    dscores_of(tile, PartVisible{tile}, delta, slopes, keep, weights, dscores);
  }
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_SOFTMAX_INL_H_
