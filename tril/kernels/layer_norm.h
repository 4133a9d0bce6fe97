// Layer normalisation over the last dimension. Ba, Kiros, Hinton (2016).
//
//   y = (x - mean) * rstd * weight + bias,   rstd = 1 / sqrt(variance + epsilon),   variance over C, biased
#pragma once

#include "tril/base/parallel.h"

namespace tril {

inline constexpr float kLayerNormEpsilon = 1e-5f;

void layer_norm_forward(Executor& executor, int64_t rows, int64_t channels,
                        const float* x,       // (N, C)
                        const float* weight,  // (C)
                        const float* bias,    // (C), or null
                        float* y,             // (N, C)
                        float* mean,          // (N)
                        float* rstd);         // (N)

// y (N, C) again from x (N, C), mean and rstd (N): backward passes recompute it rather than keep it.
void layer_norm_apply(Executor& executor, int64_t rows, int64_t channels, const float* x, const float* weight,
                      const float* bias, const float* mean, const float* rstd, float* y);

int64_t layer_norm_backward_workspace(int64_t rows, int64_t channels);  // floats

// With xhat = (x - mean) * rstd and g = dy * weight:
//   dx = rstd * (g - avg(g) - xhat * avg(g * xhat)),   dweight += sum dy * xhat,   dbias += sum dy
// dx = ..., or dx += ... with `accumulate_dx` (the residual stream). dx may be dy.
void layer_norm_backward(Executor& executor, int64_t rows, int64_t channels, const float* x,
                         const float* weight, const float* mean, const float* rstd,
                         const float* dy,  // (N, C)
                         float* dx,        // (N, C)
                         bool accumulate_dx,
                         float* dweight,  // (C)
                         float* dbias,    // (C), or null
                         float* workspace);

}  // namespace tril
