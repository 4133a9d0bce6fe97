// AdamW: Loshchilov & Hutter, "Decoupled weight decay regularization" (2019), algorithm 2.
//
//   m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2
//   w = w - lr * decay * w;  w = w - lr * (m / (1 - b1^t)) / (sqrt(v / (1 - b2^t)) + epsilon)
//   average = average + averaging (w - average)       where an average of the weights is kept
#pragma once

#include "tril/base/parallel.h"
#include "tril/kernels/bfloat16.h"

namespace tril {

struct AdamWStep {
  float learning_rate = 0;
  float beta1 = 0.9f;
  float beta2 = 0.95f;
  float epsilon = 1e-8f;
  float weight_decay = 0;
  float gradient_scale = 1;  // multiplies g first: the factor of global-norm clipping
  int64_t step = 1;          // t, from 1
  float averaging = 0;
};

// The constants of one step, rounded to float once.
struct AdamWFactors {
  float gradient_scale;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;        // learning rate / (1 - beta1^t)
  float inverse_sqrt_c2;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float decay;  // learning rate * weight decay
  float averaging;
};
AdamWFactors adamw_factors(const AdamWStep& step);

// A range of the elements of one parameter.
template <class Stored>
struct AdamWRange {
  int64_t count = 0;
  float* weights = nullptr;
  float* gradients = nullptr;  // set to zero on the way
  Stored* m = nullptr;
  Stored* v = nullptr;
  float* average = nullptr;  // or null: none is kept
};

// The words of RandomStream(key, substream) from number `first` on, one for each element.
struct RandomWords {
  uint64_t key = 0, substream = 0, first = 0;
};

// One thread; the results do not depend on how a parameter is cut into ranges.
void adamw_range(const AdamWFactors& factors, const AdamWRange<float>& range);
// Moments stored as bfloat16, computed with in f32: m is rounded to the nearest, v at random, since with
// b2 = 0.999 no step changes it by half of its last place. Gradients must be finite.
void adamw_range(const AdamWFactors& factors, const AdamWRange<Bfloat16>& range, const RandomWords& rounding);

// One parameter (or a run of parameters in one decay group) on all threads.
void adamw(Executor& executor, const AdamWStep& step, int64_t count, float* weights, float* gradients,
           float* m, float* v);

// Sum of squares in double; one thread.
double sum_of_squares(int64_t count, const float* x);

}  // namespace tril
