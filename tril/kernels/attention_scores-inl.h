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
#include "tril/kernels/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// s = c tanh(s / c), s -= slope * distance; `slopes`, if not null, becomes 1 - tanh^2(s / c).
HWY_NOINLINE void reshape_scores(const Tile& tile, const AttentionOptions& options, int64_t head,
                                 float* scores, float* slopes) {
  const Floats d;
  const Integers di;
  const bool capped = options.softcap > 0;
  const Vector cap = hn::Set(d, options.softcap),
               inverse = hn::Set(d, capped ? 1.0f / options.softcap : 0.0f);
  const Vector fall = hn::Set(d, options.alibi_slopes ? options.alibi_slopes[head] : 0.0f);
  for (int64_t q = 0; q < tile.queries; q += kLanes) {
    const int64_t keys = scored_keys(tile, q);
    for (int64_t k = first_scored(tile, q); k < keys; ++k) {
      float* const at = scores + k * kTileStride + q;
      Vector s = hn::LoadU(d, at);
      if (capped) {
        const Vector t = tril::HWY_NAMESPACE::vector_tanh(d, hn::Mul(s, inverse));
        s = hn::Mul(t, cap);
        if (slopes != nullptr)
          hn::StoreU(hn::NegMulAdd(t, t, hn::Set(d, 1.0f)), d, slopes + k * kTileStride + q);
      }
      if (options.alibi_slopes != nullptr) {
        const auto ahead = hn::Iota(di, static_cast<int32_t>(tile.position + q - k));
        s = hn::NegMulAdd(fall, hn::ConvertTo(d, hn::Abs(ahead)), s);
      }
      hn::StoreU(s, d, at);
    }
  }
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_SCORES_INL_H_
