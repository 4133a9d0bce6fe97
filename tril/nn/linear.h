// y = x W^T + b, W (out, in).
#pragma once

#include "tril/kernels/matmul.h"
#include "tril/nn/context.h"
#include "tril/nn/parameter.h"

namespace tril {

// The three products of a linear layer over N rows, on raw rows; `bias`, `dbias` may be null.
// y (N, out) = x (N, in) W^T + bias. `after` runs on each finished block of y, bias added, still in cache.
// `x_stride`: floats from one row of x to the next. `weight` (out, in) may be stored in any type that
// multiplies (kernels/stored_rows.h).
void linear_forward(const Context& context, int64_t rows, int64_t in, int64_t out, const float* x,
                    int64_t x_stride, const ConstView& weight, const float* bias, float* y,
                    Epilogue after = {});
// dx (N, in) = dy (N, out) W, or dx += with `accumulate_dx`. `after` runs on each finished block of dx.
void linear_backward_input(const Context& context, int64_t rows, int64_t in, int64_t out, const float* dy,
                           const float* weight, float* dx, Epilogue after = {}, bool accumulate_dx = false);
// dW (out, in) += dy^T x;  db (out) += sum of dy.
void linear_backward_weights(const Context& context, int64_t rows, int64_t in, int64_t out, const float* x,
                             const float* dy, float* dweight, float* dbias);

struct LinearConfig {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  float init_std = 0.02f;
};

// Saves nothing: backward is given x again.
class Linear {
 public:
  explicit Linear(const LinearConfig& config);

  // x (N, in) -> y (N, out)
  void forward(const Context& context, ConstView x, View y, Epilogue after = {}) const;
  // dx = dy W, or dx += dy W with `accumulate_dx`
  void backward_input(const Context& context, ConstView dy, View dx, Epilogue after = {},
                      bool accumulate_dx = false) const;
  // dW += dy^T x;  db += sum of dy
  void backward_weights(const Context& context, ConstView x, ConstView dy);
  void backward(const Context& context, ConstView x, ConstView dy, View dx) {
    backward_weights(context, x, dy);
    backward_input(context, dy, dx);
  }

  void visit(const std::string& prefix, ParameterVisitor visit, std::vector<ParameterPart> parts = {});
  const LinearConfig& config() const { return config_; }
  Weight weight;  // (out, in)
  Weight bias;    // (out), or empty

 private:
  LinearConfig config_;
};

// The (N, channels) matrix of a view whose last dimension is `channels`; throws kUse with `what` otherwise.
ConstView as_rows(ConstView view, int64_t channels, std::string_view what);
View as_rows(View view, int64_t channels, std::string_view what);

}  // namespace tril
