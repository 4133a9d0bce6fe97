// y = activation(x W1^T + b1) W2^T + b2; gated: y = (f(x Wg^T + bg) * (x W1^T + b1)) W2^T + b2.
#pragma once

#include "tril/kernels/activation.h"
#include "tril/nn/checkpointing.h"
#include "tril/nn/linear.h"

namespace tril {

// 4 C, or for gated activations, which have a third matrix, 8/3 C rounded up to a multiple of 32.
int64_t default_mlp_hidden(int64_t channels, Activation activation);

struct MlpConfig {
  int64_t channels = 0;
  int64_t hidden = 0;  // F; 0: default_mlp_hidden
  Activation activation = Activation::kGeluTanh;
  bool bias = true;
  float projection_init_std = 0.02f;
};

class Mlp {
 public:
  explicit Mlp(const MlpConfig& config);

  // Saves the hidden layer (and the gate) before the activation; recomputes the activation in backward, which
  // overwrites both. With checkpointing saves nothing, and backward computes both again from x.
  struct State {
    View hidden;  // (N, F), or empty
    View gate;    // (N, F), or empty
  };
  State plan(Arena& saved, int64_t rows, Checkpointing checkpointing = Checkpointing::kNone) const;

  // (.., C) -> (.., C); `after` runs on finished blocks of y as an (N, C) matrix.
  void forward(const Context& context, ConstView x, View y, State& state, Epilogue after = {}) const;
  // x, dy (.., C) -> dx (.., C), overwritten; once for each forward.
  void backward(const Context& context, ConstView x, ConstView dy, View dx, State& state);
  void visit(const std::string& prefix, ParameterVisitor visit);

  Linear hidden;      // (F, C)
  Linear gate;        // (F, C); unused, and without weights, unless the activation is gated
  Linear projection;  // (C, F)

 private:
  bool gated() const { return is_gated(config_.activation); }
  // The state's memory, or temporary memory where it saves nothing.
  State in_memory(const Context& context, int64_t rows, const State& state) const;
  MlpConfig config_;
};

}  // namespace tril
