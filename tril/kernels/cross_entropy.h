// Softmax cross-entropy over the vocabulary.
//
//   loss_n = log sum_v exp(logit_nv - max_n) + max_n - logit_n,target
//   dlogit_nv = (softmax_nv - [v = target]) * gradient_scale
//
// Label smoothing minimises (1 - s) loss_n + s mean_v loss_n(v) instead, s = label_smoothing, with
//   dlogit_nv = (softmax_nv - (1 - s) [v = target] - s / V) * gradient_scale
// so that no token becomes impossible. Szegedy et al. "Rethinking the Inception architecture" (2016), section
// 7.
//
// z-loss adds z_loss * (log sum_v exp logit_nv)^2 to what is minimised, and 2 z_loss log Z softmax_nv to
// dlogit, so that the logits stay near 0. Chowdhery et al. "PaLM" (2022), section 5. The losses given back
// are without either of them.
#pragma once

#include "tril/base/parallel.h"

namespace tril {

// losses (N): the loss of each row, 0 where mask is 0. If gradient_scale is not 0, logits are overwritten by
// dlogits (0 where mask is 0); gradient_scale is 1 / counted targets. A target outside [0, V) gives NaN in
// losses and in its row of dlogits; callers check token ids before.
void cross_entropy(Executor& executor, int64_t rows, int64_t vocabulary,
                   float* logits,           // (N, V), overwritten by dlogits if gradient_scale != 0
                   const int32_t* targets,  // (N)
                   const uint8_t* mask,     // (N), or null
                   float gradient_scale, float z_loss, float label_smoothing,
                   float* losses);  // (N)

}  // namespace tril
