#include "tril/nn/transformer_block.h"

#include <algorithm>

#include "tril/kernels/elementwise.h"

namespace tril {
namespace {

int64_t head_size_of(const TransformerBlockConfig& c) {
  if (c.head_size != 0) return c.head_size;
  check_use(c.heads > 0 && c.channels % c.heads == 0,
            "TransformerBlock: {} channels cannot be divided among {} heads; give a head size", c.channels,
            c.heads);
  return c.channels / c.heads;
}

}  // namespace

TransformerBlock::TransformerBlock(const TransformerBlockConfig& config)
    : ln1(config.channels, config.norm_bias, config.norm),
      attention({.heads = {.channels = config.channels,
                           .heads = config.heads,
                           .kv_heads = config.kv_heads,
                           .head_size = head_size_of(config),
                           .bias = config.qkv_bias,
                           .scale = config.scale,
                           .dropout = config.dropout,
                           .layer = config.layer,
                           .variants = config.attention,
                           .norm_epsilon = config.norm.epsilon},
                 .projection_bias = config.projection_bias,
                 .projection_init_std = config.projection_init_std}),
      ln2(config.channels, config.norm_bias, config.norm),
      mlp({.channels = config.channels,
           .hidden = config.mlp_hidden,
           .activation = config.activation,
           .bias = config.mlp_bias,
           .projection_init_std = config.projection_init_std}),
      config_(config) {}

TransformerBlock::State TransformerBlock::plan(Arena& saved, int64_t batch, int64_t time,
                                               Checkpointing checkpointing) const {
  const int64_t rows = checked_multiply(batch, time);
  return {.ln1 = ln1.plan(saved, rows),
          .ln2 = ln2.plan(saved, rows),
          .attention = attention.plan(saved, batch, time),
          .middle = saved.allocate({rows, config_.channels}),
          .mlp = mlp.plan(saved, rows, checkpointing)};
}

namespace {

// The end of a residual branch, on finished blocks of it: y = x + dropout(y).
struct AddResidual {
  const DropoutMask& mask;
  int64_t channels;
  const float* x;
  float* y;
  void operator()(int64_t row, int64_t rows, int64_t column, int64_t columns) const {
    for (int64_t r = row; r < row + rows; ++r) {
      const int64_t at = r * channels + column;
      if (mask.probability > 0) dropout_row(mask, at, columns, y + at, y + at);
      add_row(columns, x + at, y + at);
    }
  }
};

}  // namespace

void TransformerBlock::forward_attention(const Context& context, ConstView x3, View normed, State& state,
                                         const AttentionInputs& inputs) const {
  const ConstView x = as_rows(x3, config_.channels, "TransformerBlock input");
  const DropoutMask mask = context.dropout_mask(config_.dropout, "dropout/projection", config_.layer);
  ln1.forward(context, x, normed, state.ln1);
  attention.forward(context, normed.reshape(x3.shape), state.middle.reshape(x3.shape), state.attention,
                    inputs, AddResidual{mask, config_.channels, x.f32(), state.middle.f32()});
  ln2.forward(context, config_.parallel_residual ? x : state.middle, normed, state.ln2);
}

void TransformerBlock::recompute(const Context& context, ConstView x, State& state,
                                 const AttentionInputs& inputs) const {
  const Arena::Scope scope(context.scratch);
  forward_attention(context, x, context.scratch.allocate(state.middle.shape), state, inputs);
}

void TransformerBlock::forward(const Context& context, ConstView x3, View y3, State& state,
                               const AttentionInputs& inputs) const {
  const int64_t channels = config_.channels;
  const ConstView x = as_rows(x3, channels, "TransformerBlock input");
  const View y = as_rows(y3, channels, "TransformerBlock output");
  check_use(x.data != y.data,
            "TransformerBlock: the output may not be the input, which backward reads again");
  const Arena::Scope scope(context.scratch);
  const View normed = context.scratch.allocate(x.shape);  // (N, C)
  forward_attention(context, x3, normed, state, inputs);
  // y = middle + dropout(mlp(normed))
  const DropoutMask mask = context.dropout_mask(config_.dropout, "dropout/mlp", config_.layer);
  mlp.forward(context, normed, y, state.mlp, AddResidual{mask, channels, state.middle.f32(), y.f32()});
}

void TransformerBlock::backward(const Context& context, ConstView x3, ConstView dy3, View dx3, State& state,
                                const AttentionInputs& inputs) {
  const int64_t channels = config_.channels;
  const ConstView x = as_rows(x3, channels, "TransformerBlock input");
  const ConstView dy = as_rows(dy3, channels, "TransformerBlock dy");
  const View dx = as_rows(dx3, channels, "TransformerBlock dx");
  const Arena::Scope scope(context.scratch);
  const View normed = context.scratch.allocate(x.shape);                              // (N, C)
  const View dnormed = context.scratch.allocate(x.shape);                             // (N, C)
  const View dbranch = config_.dropout > 0 ? context.scratch.allocate(x.shape) : dx;  // (N, C)
  const bool parallel = config_.parallel_residual;
  const View dattention = parallel ? context.scratch.allocate(x.shape) : dnormed;  // (N, C)
  const auto dropped = [&](std::string_view site) {  // dbranch = gradient into the branch
    if (config_.dropout > 0) {
      const Profile::Timer timer = context.timer(pass_work("dropout backward", 2 * dx.elements()));
      dropout(context.executor, context.dropout_mask(config_.dropout, site, config_.layer), dx.elements(),
              dx.f32(), dbranch.f32());
    }
  };
  if (dx.data != dy.data) copy(context.executor, dy.elements(), dy.f32(), dx.f32());

  const auto attention_backward = [&] {  // dattention = gradient of ln1(x)
    dropped("dropout/projection");
    ln1.apply(context, x, normed, state.ln1);
    attention.backward(context, normed.reshape(x3.shape), dbranch.reshape(x3.shape),
                       dattention.reshape(x3.shape), state.attention, inputs);
  };
  if (parallel) attention_backward();  // while dx is the gradient of y alone, which both branches take

  // y = middle + dropout(mlp(ln2(middle))), or of x with parallel_residual
  const ConstView mlp_input = parallel ? x : state.middle;
  dropped("dropout/mlp");
  ln2.apply(context, mlp_input, normed, state.ln2);
  mlp.backward(context, normed, dbranch, dnormed, state.mlp);
  ln2.backward(context, mlp_input, dnormed, dx, /*accumulate_dx=*/true, state.ln2);

  // middle = x + dropout(attention(ln1(x)))
  if (!parallel) attention_backward();
  ln1.backward(context, x, dattention, dx, /*accumulate_dx=*/true, state.ln1);
}

void TransformerBlock::visit(const std::string& prefix, ParameterVisitor visit) {
  ln1.visit(prefix + "ln1.", visit);
  attention.visit(prefix + "attention.", visit);
  ln2.visit(prefix + "ln2.", visit);
  mlp.visit(prefix + "mlp.", visit);
}

}  // namespace tril
