// y = activation(x W1^T + b1) W2^T + b2, hidden size 4 C unless given.
#pragma once

#include "tril/kernels/activation.h"
#include "tril/nn/linear.h"

namespace tril {

struct MlpConfig {
  int64_t channels = 0;
  int64_t hidden = 0;  // F; 0: 4 * channels
  Activation activation = Activation::kGeluTanh;
  bool bias = true;
  float projection_init_std = 0.02f;
};

class Mlp {
 public:
  explicit Mlp(const MlpConfig& config);

  // Saves the hidden layer before the activation; recomputes the activation in backward, which overwrites it.
  struct State {
    View hidden;  // (N, F)
  };
  State plan(Arena& saved, int64_t rows) const;

  // (.., C) -> (.., C); `after` runs on finished blocks of y as an (N, C) matrix.
  void forward(const Context& context, ConstView x, View y, State& state, Epilogue after = {}) const;
  // x, dy (.., C) -> dx (.., C), overwritten; once for each forward.
  void backward(const Context& context, ConstView x, ConstView dy, View dx, State& state);
  void visit(const std::string& prefix, ParameterVisitor visit);

  Linear hidden;      // (F, C)
  Linear projection;  // (C, F)

 private:
  MlpConfig config_;
};

}  // namespace tril
