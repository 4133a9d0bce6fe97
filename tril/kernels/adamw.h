// AdamW: Loshchilov & Hutter, "Decoupled weight decay regularization" (2019), algorithm 2.
//
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w = w - lr * decay * w;  w = w - lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
#pragma once

#include "tril/base/parallel.h"

namespace tril {

struct AdamWStep {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float gradient_scale = 1;  // multiplies g first: the factor of global-norm clipping
  int64_t step = 1;          // t, from 1
};

// One parameter (or a run of parameters in one decay group). Gradients are set to zero on the way.
void adamw(Executor& executor, const AdamWStep& step, int64_t count, float* weights, float* gradients,
           float* m, float* v);

// Sum of squares in double, in fixed chunks added in order. `partial_sums` holds
// sum_of_squares_partials(count) doubles; the result is written to *sum inside the executor (so that a dry
// run touches nothing).
int64_t sum_of_squares_partials(int64_t count);
void sum_of_squares(Executor& executor, int64_t count, const float* x, double* partial_sums, double* sum);

}  // namespace tril
