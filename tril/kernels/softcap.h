// Soft cap of numbers that must not grow: y = c tanh(x / c) stays within (-c, c) and is x near 0. Gemma 2
// (2024), section 2.
#pragma once

#include "tril/base/parallel.h"

namespace tril {

// y = c tanh(x / c), slopes = dy/dx = 1 - tanh^2(x / c); y may be x; slopes may be null. c > 0.
void softcap_forward(Executor& executor, int64_t count, float cap, const float* x, float* y, float* slopes);
// dx = dy * slopes; dx may be dy.
void softcap_backward(Executor& executor, int64_t count, const float* slopes, const float* dy, float* dx);

}  // namespace tril
