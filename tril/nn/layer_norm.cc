#include "tril/nn/layer_norm.h"

#include "tril/kernels/layer_norm.h"

namespace tril {

LayerNorm::LayerNorm(int64_t channels, bool with_bias) : channels_(channels), with_bias_(with_bias) {
  check_use(channels > 0, "LayerNorm: channels {} must be positive", channels);
}

LayerNorm::State LayerNorm::plan(Arena& saved, int64_t rows) const {
  return {.mean = saved.allocate({rows}), .rstd = saved.allocate({rows})};
}

void LayerNorm::forward(const Context& context, ConstView x, View y, State& state) const {
  const int64_t rows = x.shape[0];
  check_shape(x, {rows, channels_}, "LayerNorm input (N, C)");
  check_shape(y, {rows, channels_}, "LayerNorm output (N, C)");
  check_shape(state.mean, {rows}, "LayerNorm state (N)");
  layer_norm_forward(context.executor, rows, channels_, x.f32(), weight.value.f32(), bias.value.f32(),
                     y.f32(), state.mean.f32(), state.rstd.f32());
}

void LayerNorm::apply(const Context& context, ConstView x, View y, const State& state) const {
  layer_norm_apply(context.executor, x.shape[0], channels_, x.f32(), weight.value.f32(), bias.value.f32(),
                   state.mean.f32(), state.rstd.f32(), y.f32());
}

void LayerNorm::backward(const Context& context, ConstView x, ConstView dy, View dx, bool accumulate_dx,
                         const State& state) {
  const int64_t rows = x.shape[0];
  check_shape(x, {rows, channels_}, "LayerNorm input (N, C)");
  check_shape(dy, {rows, channels_}, "LayerNorm dy (N, C)");
  check_shape(dx, {rows, channels_}, "LayerNorm dx (N, C)");
  const Arena::Scope scope(context.scratch);
  layer_norm_backward(context.executor, rows, channels_, x.f32(), weight.value.f32(), state.mean.f32(),
                      state.rstd.f32(), dy.f32(), dx.f32(), accumulate_dx, weight.gradient.f32(),
                      bias.gradient.f32(),
                      context.scratch.allocate_f32(layer_norm_backward_workspace(rows, channels_)));
}

void LayerNorm::visit(const std::string& prefix, ParameterVisitor visit) {
  visit({.name = prefix + "weight", .shape = {channels_}, .init_value = 1}, weight);
  if (with_bias_) visit({.name = prefix + "bias", .shape = {channels_}}, bias);
}

}  // namespace tril
