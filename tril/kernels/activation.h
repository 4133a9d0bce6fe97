// Activations of the MLP. GELU: Hendrycks & Gimpel (2016).
//   kRelu      max(x, 0)
//   kGeluTanh  0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))   GPT-2's
//   kGeluErf   0.5 x (1 + erf(x / sqrt(2)))                      the exact one
#pragma once

#include <string_view>

#include "tril/base/parallel.h"

namespace tril {

enum class Activation { kRelu, kGeluTanh, kGeluErf };

std::string_view activation_name(Activation activation);  // "relu", "gelu_tanh", "gelu"
Activation activation_from_name(std::string_view name);   // throws kUse

// One thread, raw rows: what matmul epilogues call.
void activation_forward_row(Activation activation, int64_t count, const float* x, float* y);
// dx = dy * f'(x); y = f(x) recomputed (y may be x itself, dx may be dy).
void activation_backward_row(Activation activation, int64_t count, float* x_to_y, float* dy_to_dx);

void activation_forward(Executor& executor, Activation activation, int64_t count, const float* x, float* y);
// dy_to_dx: dy on entry, dx on return. x_to_y: x on entry, f(x) on return (the input of the next product,
// which its weight gradient needs).
void activation_backward(Executor& executor, Activation activation, int64_t count, float* x_to_y,
                         float* dy_to_dx);

}  // namespace tril
