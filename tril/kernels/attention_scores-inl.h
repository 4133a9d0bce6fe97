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

// tanh x, error below 2 ulp. |x| < 0.625: x + x^3 q(x^2), minimax to 2^-27. Beyond, from e = exp(-2 |x|):
// (1 - e) / (1 + e).
HWY_INLINE Vector tanh_of(Vector x) {
  const Floats d;
  const Vector one = hn::Set(d, 1.0f), size = hn::Abs(x), z = hn::Mul(x, x);
  Vector q = hn::Set(d, -0x1.75e1cap-8f);
  q = hn::MulAdd(q, z, hn::Set(d, 0x1.52269ap-6f));
  q = hn::MulAdd(q, z, hn::Set(d, -0x1.b83c5ap-5f));
  q = hn::MulAdd(q, z, hn::Set(d, 0x1.110726p-3f));
  q = hn::MulAdd(q, z, hn::Set(d, -0x1.555532p-2f));
  const Vector near = hn::MulAdd(hn::Mul(x, z), q, x);
  const Vector e = exp_of_nonpositive(hn::Mul(size, hn::Set(d, -2.0f)));
  const Vector far = hn::CopySign(hn::Div(hn::Sub(one, e), hn::Add(one, e)), x);
  return hn::IfThenElse(hn::Lt(size, hn::Set(d, 0.625f)), near, far);
}

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
    for (int64_t k = 0; k < keys; ++k) {
      float* const at = scores + k * kTileStride + q;
      Vector s = hn::LoadU(d, at);
      if (capped) {
        const Vector t = tanh_of(hn::Mul(s, inverse));
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
