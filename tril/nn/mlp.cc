#include "tril/nn/mlp.h"

namespace tril {

int64_t default_mlp_hidden(int64_t channels, Activation activation) {
  if (!is_gated(activation)) return checked_multiply(4, channels);
  return round_up(divide_up(checked_multiply(8, channels), 3), 32);
}

Mlp::Mlp(const MlpConfig& config)
    : hidden(
          {.in = config.channels,
           .out = config.hidden != 0 ? config.hidden : default_mlp_hidden(config.channels, config.activation),
           .bias = config.bias}),
      gate(hidden.config()),
      projection({.in = hidden.config().out,
                  .out = config.channels,
                  .bias = config.bias,
                  .init_std = config.projection_init_std}),
      config_(config) {}

Mlp::State Mlp::plan(Arena& saved, int64_t rows, Checkpointing checkpointing) const {
  if (checkpointing != Checkpointing::kNone) return {};
  const Shape shape = {rows, hidden.config().out};
  return {.hidden = saved.allocate(shape), .gate = gated() ? saved.allocate(shape) : View()};
}

Mlp::State Mlp::in_memory(const Context& context, int64_t rows, const State& state) const {
  return state.hidden ? state : plan(context.scratch, rows);
}

void Mlp::forward(const Context& context, ConstView x, View y, State& state, Epilogue after) const {
  const Arena::Scope scope(context.scratch);
  const ConstView x_rows = as_rows(x, config_.channels, "Mlp input");
  const State own = in_memory(context, x_rows.shape[0], state);
  const View activated = context.scratch.allocate(own.hidden.shape);  // (N, F)
  const int64_t f = hidden.config().out;
  const float* const h = own.hidden.f32();
  const float* const g = own.gate.f32();
  float* const a = activated.f32();
  if (gated()) gate.forward(context, x_rows, own.gate);
  // a = activation(x W1^T + b1), or f(g) * (x W1^T + b1)
  hidden.forward(context, x_rows, own.hidden,
                 [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
                   for (int64_t r = row; r < row + rows; ++r) {
                     const int64_t at = r * f + column;
                     if (gated())
                       gated_forward_row(config_.activation, columns, g + at, h + at, a + at);
                     else
                       activation_forward_row(config_.activation, columns, h + at, a + at);
                   }
                 });
  // y = a W2^T + b2
  projection.forward(context, activated, as_rows(y, config_.channels, "Mlp output"), after);
}

void Mlp::backward(const Context& context, ConstView x, ConstView dy, View dx, State& state) {
  const Arena::Scope scope(context.scratch);
  const ConstView x_rows = as_rows(x, config_.channels, "Mlp input");
  const ConstView dy_rows = as_rows(dy, config_.channels, "Mlp dy");
  const State own = in_memory(context, x_rows.shape[0], state);
  if (!state.hidden) {
    hidden.forward(context, x_rows, own.hidden);
    if (gated()) gate.forward(context, x_rows, own.gate);
  }
  const View dhidden = context.scratch.allocate(own.hidden.shape);  // (N, F)
  const int64_t f = hidden.config().out;
  float* const h = own.hidden.f32();
  float* const dh = dhidden.f32();
  float* const g = own.gate.f32();
  // da = dy W2;  dh = da * activation'(h);  h becomes a = activation(h).  Gated: dh = da * f(g), g becomes dg
  projection.backward_input(context, dy_rows, dhidden,
                            [&](int64_t row, int64_t rows, int64_t column, int64_t columns) {
                              for (int64_t r = row; r < row + rows; ++r) {
                                const int64_t at = r * f + column;
                                if (gated())
                                  gated_backward_row(config_.activation, columns, g + at, h + at, dh + at);
                                else
                                  activation_backward_row(config_.activation, columns, h + at, dh + at);
                              }
                            });
  // dW2 += dy^T a;  dW1 += dh^T x;  dx = dh W1;  gated: dWg += dg^T x;  dx += dg Wg
  projection.backward_weights(context, own.hidden, dy_rows);
  const View dx_rows = as_rows(dx, config_.channels, "Mlp dx");
  hidden.backward(context, x_rows, dhidden, dx_rows);
  if (!gated()) return;
  gate.backward_weights(context, x_rows, own.gate);
  gate.backward_input(context, own.gate, dx_rows, {}, /*accumulate_dx=*/true);
}

void Mlp::visit(const std::string& prefix, ParameterVisitor visit) {
  if (gated()) gate.visit(prefix + "gate.", visit);
  hidden.visit(prefix + "hidden.", visit);
  projection.visit(prefix + "projection.", visit);
}

}  // namespace tril
