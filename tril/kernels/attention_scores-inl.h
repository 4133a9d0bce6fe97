// What happens to scores between the product and the softmax: softcap and ALiBi.

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_SCORES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_SCORES_INL_H_
#undef TRIL_KERNELS_ATTENTION_SCORES_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_SCORES_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include "tril/kernels/attention_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// s = c tanh(s / c), s -= slope * |ahead|, for scores of one head.
struct Reshape {
  Reshape(const AttentionOptions& options, int64_t head)
      : capped(options.softcap > 0),
        sloped(options.alibi_slopes != nullptr),
        cap(options.softcap),
        fall(sloped ? options.alibi_slopes[head] : 0.0f) {}

  // `ahead`: positions from key to query; `slopes`, if not null, becomes 1 - tanh^2(s / c).
  HWY_INLINE Vector operator()(Vector s, hn::Vec<Integers> ahead, float* slopes = nullptr) const {
    const Floats d;
    if (capped) {
      const Vector t = tril::HWY_NAMESPACE::vector_tanh(d, hn::Mul(s, hn::Set(d, 1.0f / cap)));
      s = hn::Mul(t, hn::Set(d, cap));
      if (slopes != nullptr) hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), d, slopes);
    }
    if (sloped) s = hn::NegMulAdd(hn::Set(d, fall), hn::ConvertTo(d, hn::Abs(ahead)), s);
    return s;
  }

  bool capped, sloped;
  float cap, fall;
};

// A tile's scores; `slopes`: of the softcap, or null.
HWY_NOINLINE void reshape_scores(const Tile& tile, const AttentionOptions& options, int64_t head,
                                 float* scores, float* slopes) {
  const Floats d;
  const Integers di;
  const Reshape reshape(options, head);
  for (int64_t q = 0; q < tile.queries; q += kLanes) {
    const int64_t keys = scored_keys(tile, q);
    for (int64_t k = first_scored(tile, q); k < keys; ++k) {
      const int64_t at = k * kTileStride + q;
      const auto ahead = hn::Iota(di, static_cast<int32_t>(tile.position + q - k));
      const Vector s = reshape(hn::LoadU(d, scores + at), ahead, slopes == nullptr ? nullptr : slopes + at);
      hn::StoreU(s, d, scores + at);
    }
  }
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_SCORES_INL_H_
