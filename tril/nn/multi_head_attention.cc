#include "tril/nn/multi_head_attention.h"

namespace tril {

MultiHeadAttention::MultiHeadAttention(const MultiHeadAttentionConfig& config)
    : heads(config.heads),
      projection({.in = heads.out_features(),
                  .out = config.heads.channels,
                  .bias = config.projection_bias,
                  .init_std = config.projection_init_std}) {}

namespace {

void check_sequence(const ConstView& x, int64_t channels) {
  check_use(x.shape.rank() == 3 && x.shape[2] == channels,
            "MultiHeadAttention input: shape {} where (B, T, {}) is expected", x.shape, channels);
}

}  // namespace

void MultiHeadAttention::forward(const Context& context, ConstView x, View y, State& state,
                                 const AttentionInputs& inputs, Epilogue after) const {
  const int64_t channels = heads.config().channels;
  check_sequence(x, channels);
  heads.forward(context, x.shape[0], x.shape[1], as_rows(x, channels, "MultiHeadAttention input"), state,
                inputs);
  projection.forward(context, state.out, as_rows(y, channels, "MultiHeadAttention output"), after);
}

void MultiHeadAttention::backward(const Context& context, ConstView x, ConstView dy, View dx, State& state,
                                  const AttentionInputs& inputs) {
  const int64_t channels = heads.config().channels;
  check_sequence(x, channels);
  const Arena::Scope scope(context.scratch);
  const View dout = context.scratch.allocate(state.out.shape);  // (N, H D)
  projection.backward(context, state.out, as_rows(dy, channels, "MultiHeadAttention dy"), dout);
  heads.backward(context, x.shape[0], x.shape[1], as_rows(x, channels, "MultiHeadAttention input"), dout,
                 as_rows(dx, channels, "MultiHeadAttention dx"), state, inputs);
}

void MultiHeadAttention::visit(const std::string& prefix, ParameterVisitor visit) {
  heads.visit(prefix, visit);
  projection.visit(prefix + "projection.", visit);
}

}  // namespace tril
