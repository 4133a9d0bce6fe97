// y = x W^T + b, W (out, in).
#pragma once

#include "tril/kernels/matmul.h"
#include "tril/nn/context.h"
#include "tril/nn/parameter.h"

namespace tril {

struct LinearConfig {
  int64_t in = 0;
  int64_t out = 0;
  bool bias = true;
  float init_std = 0.02f;
};

class Linear {
 public:
  explicit Linear(const LinearConfig& config);

  // `after` runs on each finished block of y, bias added, still in cache: (row, rows, column, columns).
  void forward(const Context& context, ConstView x, View y, Epilogue after = {}) const;
  // dW += dy^T x; db += sum dy; dx = dy W (or dx += with accumulate_dx; none if dx is empty).
  // `after` runs on each finished block of dx.
  void backward(const Context& context, ConstView x, ConstView dy, View dx, bool accumulate_dx = false,
                Epilogue after = {});
  // The two halves of backward, for layers that compute x again in between.
  void backward_input(const Context& context, ConstView dy, View dx, bool accumulate_dx = false,
                      Epilogue after = {}) const;
  void backward_weights(const Context& context, ConstView x, ConstView dy);

  void visit(const std::string& prefix, ParameterVisitor visit, std::vector<ParameterPart> parts = {});
  const LinearConfig& config() const { return config_; }
  Weight weight;  // (out, in)
  Weight bias;    // (out), empty without bias

 private:
  LinearConfig config_;
};

}  // namespace tril
