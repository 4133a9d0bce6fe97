#include "tril/nn/mlp.h"

namespace tril {

Mlp::Mlp(const MlpConfig& config)
    : hidden({.in = config.channels,
              .out = config.hidden != 0 ? config.hidden : checked_multiply(4, config.channels),
              .bias = config.bias}),
      projection({.in = hidden.config().out,
                  .out = config.channels,
                  .bias = config.bias,
                  .init_std = config.projection_init_std}),
      config_(config) {}

Mlp::State Mlp::plan(Arena& saved, int64_t rows) const {
  return {.hidden = saved.allocate({rows, hidden.config().out})};
}

void Mlp::forward(const Context& context, ConstView x, View y, State& state, Epilogue after) const {
  const Arena::Scope scope(context.scratch);
  const View activated = context.scratch.allocate(state.hidden.shape);  // (N, F)
  const int64_t f = hidden.config().out;
  const float* const h = state.hidden.f32();
  float* const a = activated.f32();
  // a = activation(x W1^T + b1)
  hidden.forward(context, as_rows(x, config_.channels, "Mlp input"), state.hidden,
                 [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
                   for (int64_t r = row; r < row + rows; ++r) {
                     activation_forward_row(config_.activation, columns, h + r * f + column,
                                            a + r * f + column);
                   }
                 });
  // y = a W2^T + b2
  projection.forward(context, activated, as_rows(y, config_.channels, "Mlp output"), after);
}

void Mlp::backward(const Context& context, ConstView x, ConstView dy, View dx, State& state) {
  const Arena::Scope scope(context.scratch);
  const View dhidden = context.scratch.allocate(state.hidden.shape);  // (N, F)
  const int64_t f = hidden.config().out;
  float* const h = state.hidden.f32();
  float* const dh = dhidden.f32();
  const ConstView dy_rows = as_rows(dy, config_.channels, "Mlp dy");
  // da = dy W2;  dh = da * activation'(h);  h becomes a = activation(h)
  projection.backward_input(
      context, dy_rows, dhidden, [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
        for (int64_t r = row; r < row + rows; ++r) {
          activation_backward_row(config_.activation, columns, h + r * f + column, dh + r * f + column);
        }
      });
  // dW2 += dy^T a;  dW1 += dh^T x;  dx = dh W1
  projection.backward_weights(context, state.hidden, dy_rows);
  hidden.backward(context, as_rows(x, config_.channels, "Mlp input"), dhidden,
                  as_rows(dx, config_.channels, "Mlp dx"));
}

void Mlp::visit(const std::string& prefix, ParameterVisitor visit) {
  hidden.visit(prefix + "hidden.", visit);
  projection.visit(prefix + "projection.", visit);
}

}  // namespace tril
