// Activations of the MLP. GELU: Hendrycks & Gimpel (2016).
//   kRelu      max(x, 0)
//   kGeluTanh  0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))   GPT-2's
//   kGeluErf   0.5 x (1 + erf(x / sqrt(2)))                      the exact one
//   kSilu      x / (1 + exp(-x))                                 Elfwing, Uchibe, Doya (2017)
// and the gated ones, of two inputs x and gate. Shazeer, "GLU variants improve Transformer" (2020):
//   kSwiGlu    silu(gate) x
//   kGeGlu     gelu_tanh(gate) x
#pragma once

#include <string_view>

#include "tril/base/parallel.h"

namespace tril {

enum class Activation { kRelu, kGeluTanh, kGeluErf, kSilu, kSwiGlu, kGeGlu };

std::string_view activation_name(Activation activation);  // "relu", "gelu_tanh", "gelu", "silu", "swiglu" ...
Activation activation_from_name(std::string_view name);   // throws kUse
inline bool is_gated(Activation a) { return a == Activation::kSwiGlu || a == Activation::kGeGlu; }

// One thread, raw rows: what matmul epilogues call. Not for gated ones.
void activation_forward_row(Activation activation, int64_t count, const float* x, float* y);
// dx = dy * f'(x); y = f(x) recomputed (y may be x itself, dx may be dy).
void activation_backward_row(Activation activation, int64_t count, float* x_to_y, float* dy_to_dx);

void activation_forward(Executor& executor, Activation activation, int64_t count, const float* x, float* y);
// dy_to_dx: dy on entry, dx on return. x_to_y: x on entry, f(x) on return (the input of the next product,
// which its weight gradient needs).
void activation_backward(Executor& executor, Activation activation, int64_t count, float* x_to_y,
                         float* dy_to_dx);

// One thread, gated activations: y = f(gate) x.
void gated_forward_row(Activation activation, int64_t count, const float* gate, const float* x, float* y);
// dx = dy * f(gate), dgate = dy * x * f'(gate); y = f(gate) x recomputed.
void gated_backward_row(Activation activation, int64_t count, float* gate_to_dgate, float* x_to_y,
                        float* dy_to_dx);

}  // namespace tril
