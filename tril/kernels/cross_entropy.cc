#include "tril/kernels/cross_entropy.h"

#include <cmath>
#include <limits>

#include "tril/kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/cross_entropy.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

// One row: the loss is returned; with a gradient_scale the logits become their gradients. Three passes over a
// row that stays in the cache: max, exp and sum, scale.
float cross_entropy_row(size_t vocabulary, float* logits, size_t target, float gradient_scale, float z_loss,
                        float label_smoothing) {
  const float max = row_max(vocabulary, logits);
  const float target_logit = logits[target];
  const bool gradient = gradient_scale != 0;
  // The target is kept out of the sum: the loss and the target's gradient of a nearly sure prediction are
  // about as small as the sum of the others, which would vanish beside 1.
  logits[target] = -std::numeric_limits<float>::infinity();
  const double others =
      gradient ? exp_and_sum<true>(vocabulary, max, logits) : exp_and_sum<false>(vocabulary, max, logits);
  const double distance = double{target_logit} - double{max};
  const double weight = std::exp(distance), sum = others + weight;
  if (gradient) {
    // p_v (1 + 2 z log Z) - (1 - s) [v = target] - s / V
    const double pull = z_loss == 0 ? 0 : 2 * double{z_loss} * (std::log(sum) + double{max});
    const double smoothing = label_smoothing, share = smoothing / static_cast<double>(vocabulary);
    const auto factor = static_cast<float>(gradient_scale * (1 + pull) / sum);
    if (smoothing == 0)
      scale_row(vocabulary, factor, logits);
    else
      scale_and_shift_row(vocabulary, factor, static_cast<float>(-share * gradient_scale), logits);
    const double own = (pull * weight - others) / sum + (smoothing - share);
    logits[target] = static_cast<float>(own * gradient_scale);
  } else {
    logits[target] = target_logit;
  }
  return static_cast<float>(distance == 0 ? std::log1p(others) : std::log(sum) - distance);
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(cross_entropy_row);

void cross_entropy(Executor& executor, int64_t rows, int64_t vocabulary, float* logits,
                   const int32_t* targets, const uint8_t* mask, float gradient_scale, float z_loss,
                   float label_smoothing, float* losses) {
  parallel_for(executor, rows, rows_per_chunk(vocabulary), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      float* row = logits + n * vocabulary;
      const bool masked = mask != nullptr && mask[n] == 0;
      const bool valid = targets[n] >= 0 && targets[n] < vocabulary;
      if (masked || !valid) {
        const float value = masked ? 0.0f : std::numeric_limits<float>::quiet_NaN();
        losses[n] = value;
        if (gradient_scale != 0) std::fill(row, row + vocabulary, value);
        continue;
      }
      losses[n] = HWY_DYNAMIC_DISPATCH(cross_entropy_row)(static_cast<size_t>(vocabulary), row,
                                                          static_cast<size_t>(targets[n]), gradient_scale,
                                                          z_loss, label_smoothing);
    }
  });
}

}  // namespace tril
#endif  // HWY_ONCE
