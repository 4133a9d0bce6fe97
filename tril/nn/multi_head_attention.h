// Heads concatenated, then one output projection with bias. Vaswani et al. (2017), section 3.2.2.
#pragma once

#include "tril/nn/head.h"

namespace tril {

struct MultiHeadAttentionConfig {
  HeadsConfig heads;
  bool projection_bias = true;
  float projection_init_std = 0.02f;
};

class MultiHeadAttention {
 public:
  explicit MultiHeadAttention(const MultiHeadAttentionConfig& config);
  using State = Heads::State;
  State plan(Arena& saved, int64_t batch, int64_t time) const { return heads.plan(saved, batch, time); }

  // (B, T, C) -> (B, T, C). `after` runs on finished blocks of y as an (N, C) matrix.
  void forward(const Context& context, ConstView x, View y, State& state, const AttentionInputs& inputs = {},
               Epilogue after = {}) const;
  // dx is overwritten.
  void backward(const Context& context, ConstView x, ConstView dy, View dx, State& state,
                const AttentionInputs& inputs = {});
  void visit(const std::string& prefix, ParameterVisitor visit);

  Heads heads;
  Linear projection;  // (C, H D)
};

}  // namespace tril
