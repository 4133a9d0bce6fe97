// Residual adds, biases and their gradients.
#pragma once

#include "tril/base/parallel.h"

namespace tril {

// y += x
void add(Executor& executor, int64_t count, const float* x, float* y);
void add_row(int64_t count, const float* x, float* y);  // one thread

// y = x
void copy(Executor& executor, int64_t count, const float* x, float* y);

// y_nc += bias_c.
void bias_forward(Executor& executor, int64_t rows, int64_t channels, const float* bias, float* y);

// dbias_c += sum_n dy_nc, rows in fixed chunks whose sums are added in order.
int64_t bias_backward_workspace(int64_t rows, int64_t channels);  // floats
void bias_backward(Executor& executor, int64_t rows, int64_t channels, const float* dy, float* dbias,
                   float* workspace);

// *bad = index of the first non-finite element, or -1. Written inside the executor.
void first_non_finite(Executor& executor, int64_t count, const float* x, int64_t* bad);

}  // namespace tril
