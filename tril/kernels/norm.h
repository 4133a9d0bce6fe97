// Normalisation over the last dimension.
//
//   y = (x - mean) * rstd * weight + bias
//
//   kLayer: layer normalisation, Ba, Kiros, Hinton (2016). rstd = 1 / sqrt(variance + epsilon), of all C
//
//   kRms: RMS normalisation, Zhang, Sennrich (2019). mean = 0, rstd = 1 / sqrt(avg(x^2) + epsilon)
#pragma once

#include "tril/base/parallel.h"

namespace tril {

enum class NormKind { kLayer, kRms };

struct NormOptions {
  NormKind kind = NormKind::kLayer;
  float epsilon = 1e-5f;
  bool operator==(const NormOptions&) const = default;
};

void norm_forward(Executor& executor, const NormOptions& options, int64_t rows, int64_t channels,
                  const float* x,       // (N, C)
                  const float* weight,  // (C)
                  const float* bias,    // (C), or null
                  float* y,             // (N, C)
                  float* mean,          // (N); zeros for kRms
                  float* rstd);         // (N)

// y (N, C) again from x (N, C), mean and rstd (N): backward passes recompute it rather than keep it.
void norm_apply(Executor& executor, int64_t rows, int64_t channels, const float* x, const float* weight,
                const float* bias, const float* mean, const float* rstd, float* y);

int64_t norm_backward_workspace(int64_t rows, int64_t channels);  // floats

// With xhat = (x - mean) * rstd and g = dy * weight:
//   dx = rstd * (g - avg(g) - xhat * avg(g * xhat)),   dweight += sum dy * xhat,   dbias += sum dy
// without avg(g) for kRms. dx = ..., or dx += ... with `accumulate_dx` (the residual stream). dx may be dy.
void norm_backward(Executor& executor, NormKind kind, int64_t rows, int64_t channels, const float* x,
                   const float* weight, const float* mean, const float* rstd,
                   const float* dy,  // (N, C)
                   float* dx,        // (N, C)
                   bool accumulate_dx,
                   float* dweight,  // (C)
                   float* dbias,    // (C), or null
                   float* workspace);

}  // namespace tril
