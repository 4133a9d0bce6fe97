#include "tril/nn/norm.h"

namespace tril {

Norm::Norm(int64_t channels, bool with_bias, const NormOptions& options)
    : channels_(channels), with_bias_(with_bias), options_(options) {
  check_use(channels > 0, "Norm: channels {} must be positive", channels);
  check_use(options.epsilon > 0 && options.epsilon < 1, "Norm: epsilon {} must lie between 0 and 1",
            options.epsilon);
}

Norm::State Norm::plan(Arena& saved, int64_t rows) const {
  return {.mean = saved.allocate({rows}), .rstd = saved.allocate({rows})};
}

void Norm::forward(const Context& context, ConstView x, View y, State& state) const {
  const int64_t rows = x.shape[0];
  check_shape(x, {rows, channels_}, "Norm input (N, C)");
  check_shape(y, {rows, channels_}, "Norm output (N, C)");
  check_shape(state.mean, {rows}, "Norm state (N)");
  const Profile::Timer timer = context.timer(pass_work("norm forward", 2 * x.elements()));
  norm_forward(context.executor, options_, rows, channels_, x.f32(), weight.value.f32(), bias.value.f32(),
               y.f32(), state.mean.f32(), state.rstd.f32());
}

void Norm::apply(const Context& context, ConstView x, View y, const State& state) const {
  const Profile::Timer timer = context.timer(pass_work("norm again", 2 * x.elements()));
  norm_apply(context.executor, x.shape[0], channels_, x.f32(), weight.value.f32(), bias.value.f32(),
             state.mean.f32(), state.rstd.f32(), y.f32());
}

void Norm::backward(const Context& context, ConstView x, ConstView dy, View dx, bool accumulate_dx,
                    const State& state) {
  const int64_t rows = x.shape[0];
  check_shape(x, {rows, channels_}, "Norm input (N, C)");
  check_shape(dy, {rows, channels_}, "Norm dy (N, C)");
  check_shape(dx, {rows, channels_}, "Norm dx (N, C)");
  const Profile::Timer timer =
      context.timer(pass_work("norm backward", (accumulate_dx ? 4 : 3) * x.elements()));
  const Arena::Scope scope(context.scratch);
  norm_backward(context.executor, options_.kind, rows, channels_, x.f32(), weight.value.f32(),
                state.mean.f32(), state.rstd.f32(), dy.f32(), dx.f32(), accumulate_dx, weight.gradient.f32(),
                bias.gradient.f32(), context.scratch.allocate_f32(norm_backward_workspace(rows, channels_)));
}

void Norm::visit(const std::string& prefix, ParameterVisitor visit) {
  visit({.name = prefix + "weight", .shape = {channels_}, .init_value = 1}, weight);
  if (with_bias_) visit({.name = prefix + "bias", .shape = {channels_}}, bias);
}

}  // namespace tril
