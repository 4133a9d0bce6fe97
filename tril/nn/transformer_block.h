// Pre-norm residual block: x += dropout(attention(ln1(x)));  x += dropout(mlp(ln2(x))).
// Radford et al. "Language models are unsupervised multitask learners" (2019); Xiong et al. (2020) on
// pre-norm. With parallel_residual both branches read x: y = x + attention(ln1(x)) + mlp(ln2(x)), as in
// Black et al. "GPT-NeoX-20B" (2022), section 2.1.
#pragma once

#include "tril/nn/mlp.h"
#include "tril/nn/multi_head_attention.h"
#include "tril/nn/norm.h"

namespace tril {

struct TransformerBlockConfig {
  int64_t channels = 0;
  int64_t heads = 1;
  int64_t kv_heads = 0;    // 0: heads
  int64_t head_size = 0;   // 0: channels / heads
  int64_t mlp_hidden = 0;  // 0: default_mlp_hidden
  Activation activation = Activation::kGeluTanh;
  bool qkv_bias = false;
  bool projection_bias = true;
  bool mlp_bias = true;
  bool norm_bias = true;
  NormOptions norm = {};
  bool parallel_residual = false;
  AttentionVariants attention = {};
  float scale = 0;  // of the scores; 0: 1 / sqrt(head_size)
  float dropout = 0;
  float projection_init_std = 0.02f;
  int64_t layer = 0;
};

class TransformerBlock {
 public:
  explicit TransformerBlock(const TransformerBlockConfig& config);

  struct State {
    Norm::State ln1, ln2;
    MultiHeadAttention::State attention;
    View middle;  // (N, C): x after the attention half
    Mlp::State mlp;
  };
  State plan(Arena& saved, int64_t batch, int64_t time,
             Checkpointing checkpointing = Checkpointing::kNone) const;

  // x (B, T, C) -> y (B, T, C); y may not be x, which backward reads again.
  void forward(const Context& context, ConstView x, View y, State& state,
               const AttentionInputs& inputs = {}) const;
  // Fills a state that was planned with checkpointing as forward left it, before backward, where another
  // block's forward has used it since.
  void recompute(const Context& context, ConstView x, State& state, const AttentionInputs& inputs = {}) const;
  // dx = gradient with respect to x; dx may be dy.
  void backward(const Context& context, ConstView x, ConstView dy, View dx, State& state,
                const AttentionInputs& inputs = {});
  void visit(const std::string& prefix, ParameterVisitor visit);

  Norm ln1;
  MultiHeadAttention attention;
  Norm ln2;
  Mlp mlp;

 private:
  // middle = x + dropout(attention(ln1(x))), then normed = ln2(middle), or of x with parallel_residual.
  void forward_attention(const Context& context, ConstView x, View normed, State& state,
                         const AttentionInputs& inputs) const;
  TransformerBlockConfig config_;
};

}  // namespace tril
