#include "tril/kernels/activation.h"

#include <utility>

#include "tril/base/error.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/activation.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/math-inl.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

// x times the distribution function F(x), and its derivative F(x) + x F'(x).
struct ValueAndSlope {
  FloatVector value;
  FloatVector slope;
};

// Beyond |x| = 15 both GELUs are 0 or x, and their derivatives 0 or 1, to the last bit. The bound keeps
// x^2 finite and 0 * inf away; NaN passes.
constexpr float kSaturated = 15.0f;

HWY_INLINE FloatVector bounded(FloatVector x) {
  const FloatTag d;
  const FloatVector bound = hn::Set(d, kSaturated);
  return hn::IfThenElse(hn::Gt(hn::Abs(x), bound), hn::CopySign(bound, x), x);
}

// x F(x), `lower` = F(-|x|), `upper` = 1 - lower.
HWY_INLINE FloatVector select_cdf(FloatVector x, FloatVector lower, FloatVector upper) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(FloatTag())), lower, upper);
}

HWY_INLINE FloatVector times_cdf(FloatVector x, FloatVector cdf) {
  const FloatTag d;
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, -kSaturated)), hn::Zero(d), hn::Mul(x, cdf));
}

// 0.5 (1 + tanh(u)) = 1 / (1 + exp(-2u)), computed from e = exp(-|2u|) so that neither tail cancels.
HWY_INLINE ValueAndSlope gelu_tanh(FloatVector x) {
  const FloatTag d;
  const FloatVector one = hn::Set(d, 1.0f);
  const FloatVector a = hn::Set(d, 1.5957691216057308f);  // 2 sqrt(2/pi)
  const FloatVector b = hn::Set(d, 1.5957691216057308f * 0.044715f);
  const FloatVector b3 = hn::Set(d, 1.5957691216057308f * 3 * 0.044715f);
  const FloatVector z = bounded(x);
  const FloatVector z2 = hn::Mul(z, z);
  const FloatVector u2 = hn::Mul(z, hn::MulAdd(b, z2, a));
  const FloatVector e = exp_of_nonpositive(d, hn::Neg(hn::Abs(u2)));
  const FloatVector upper = hn::Div(one, hn::Add(one, e));
  const FloatVector lower = hn::Mul(e, upper);
  const FloatVector cdf = select_cdf(x, lower, upper);
  // F' = F (1 - F) d(2u)/dx
  const FloatVector density = hn::Mul(hn::Mul(lower, upper), hn::MulAdd(b3, z2, a));
  return {times_cdf(x, cdf), hn::MulAdd(z, density, cdf)};
}

// F(-|x|) = erfc(|x| / sqrt 2) / 2 = exp(-x^2 / 2) * scaled erfc / 2.
HWY_INLINE ValueAndSlope gelu_erf(FloatVector x) {
  const FloatTag d;
  const FloatVector half = hn::Set(d, 0.5f);
  const FloatVector z = bounded(x);
  const FloatVector e = exp_of_nonpositive(d, hn::Mul(hn::Mul(z, z), hn::Set(d, -0.5f)));
  const FloatVector a = hn::Mul(hn::Abs(z), hn::Set(d, 0.70710678118654752f));
  const FloatVector lower = hn::Mul(hn::Mul(e, half), vector_scaled_erfc(d, a));
  const FloatVector upper = hn::Sub(hn::Set(d, 1.0f), lower);
  const FloatVector cdf = select_cdf(x, lower, upper);
  // F' = exp(-x^2 / 2) / sqrt(2 pi)
  const FloatVector density = hn::Mul(e, hn::Set(d, 0.39894228040143268f));
  return {times_cdf(x, cdf), hn::MulAdd(z, density, cdf)};
}

// Beyond |x| = 90 the sigmoid is 0 or 1 to the last bit.
constexpr float kSigmoidSaturated = 90.0f;

// sigma = 1 / (1 + exp(-x)) from e = exp(-|x|);  (x sigma)' = sigma + x sigma (1 - sigma)
HWY_INLINE ValueAndSlope silu(FloatVector x) {
  const FloatTag d;
  const FloatVector one = hn::Set(d, 1.0f), bound = hn::Set(d, kSigmoidSaturated);
  const FloatVector size = hn::Min(hn::Abs(x), bound);  // NaN: either
  const FloatVector e = exp_of_nonpositive(d, hn::Neg(size));
  const FloatVector upper = hn::Div(one, hn::Add(one, e));
  const FloatVector lower = hn::Mul(e, upper);
  const FloatVector sigma = select_cdf(x, lower, upper);
  const FloatVector value = hn::IfThenElse(hn::Lt(x, hn::Neg(bound)), hn::Zero(d), hn::Mul(x, sigma));
  const FloatVector slope = hn::MulAdd(hn::CopySign(size, x), hn::Mul(lower, upper), sigma);
  return {value, hn::IfThenElse(hn::Eq(x, x), slope, x)};
}

// Comparisons are written so that NaN passes through.
HWY_INLINE FloatVector relu(FloatVector x) {
  const FloatVector zero = hn::Zero(FloatTag());
  return hn::IfThenElse(hn::Lt(x, zero), zero, x);
}

void forward_row(Activation activation, size_t count, const float* x, float* y) {
  switch (activation) {
    case Activation::kRelu:
      for_each_vector(count,
                      [&](size_t i, auto access) HWY_ATTR { access.store(relu(access.load(x + i)), y + i); });
      break;
    case Activation::kGeluTanh:
      for_each_vector(count, [&](size_t i, auto access)
                                 HWY_ATTR { access.store(gelu_tanh(access.load(x + i)).value, y + i); });
      break;
    case Activation::kGeluErf:
      for_each_vector(count, [&](size_t i, auto access)
                                 HWY_ATTR { access.store(gelu_erf(access.load(x + i)).value, y + i); });
      break;
    default:
      for_each_vector(count, [&](size_t i, auto access)
                                 HWY_ATTR { access.store(silu(access.load(x + i)).value, y + i); });
  }
}

template <class Function>
HWY_INLINE void backward_with(const Function& function, size_t count, float* x_to_y, float* dy_to_dx) {
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    const ValueAndSlope f = function(access.load(x_to_y + i));
    access.store(f.value, x_to_y + i);
    access.store(hn::Mul(access.load(dy_to_dx + i), f.slope), dy_to_dx + i);
  });
}

void backward_row(Activation activation, size_t count, float* x_to_y, float* dy_to_dx) {
  switch (activation) {
    case Activation::kRelu:
      // Selected, not multiplied: a dead unit passes nothing on, not even an infinite gradient.
      for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
        const FloatVector zero = hn::Zero(FloatTag());
        const FloatVector x = access.load(x_to_y + i);
        access.store(relu(x), x_to_y + i);
        access.store(hn::IfThenElse(hn::Le(x, zero), zero, access.load(dy_to_dx + i)), dy_to_dx + i);
      });
      break;
    case Activation::kGeluTanh:
      backward_with([](FloatVector x) HWY_ATTR { return gelu_tanh(x); }, count, x_to_y, dy_to_dx);
      break;
    case Activation::kGeluErf:
      backward_with([](FloatVector x) HWY_ATTR { return gelu_erf(x); }, count, x_to_y, dy_to_dx);
      break;
    default:
      backward_with([](FloatVector x) HWY_ATTR { return silu(x); }, count, x_to_y, dy_to_dx);
  }
}

template <class Function>
HWY_INLINE void gated_forward_with(const Function& function, size_t count, const float* gate, const float* x,
                                   float* y) {
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    access.store(hn::Mul(function(access.load(gate + i)).value, access.load(x + i)), y + i);
  });
}

void gated_forward(Activation activation, size_t count, const float* gate, const float* x, float* y) {
  if (activation == Activation::kSwiGlu)
    gated_forward_with([](FloatVector g) HWY_ATTR { return silu(g); }, count, gate, x, y);
  else
    gated_forward_with([](FloatVector g) HWY_ATTR { return gelu_tanh(g); }, count, gate, x, y);
}

template <class Function>
HWY_INLINE void gated_backward_with(const Function& function, size_t count, float* gate_to_dgate,
                                    float* x_to_y, float* dy_to_dx) {
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    const ValueAndSlope f = function(access.load(gate_to_dgate + i));
    const FloatVector x = access.load(x_to_y + i), dy = access.load(dy_to_dx + i);
    access.store(hn::Mul(f.value, x), x_to_y + i);
    access.store(hn::Mul(dy, f.value), dy_to_dx + i);
    access.store(hn::Mul(hn::Mul(dy, x), f.slope), gate_to_dgate + i);
  });
}

void gated_backward(Activation activation, size_t count, float* gate_to_dgate, float* x_to_y,
                    float* dy_to_dx) {
  if (activation == Activation::kSwiGlu)
    gated_backward_with([](FloatVector g) HWY_ATTR { return silu(g); }, count, gate_to_dgate, x_to_y,
                        dy_to_dx);
  else
    gated_backward_with([](FloatVector g) HWY_ATTR { return gelu_tanh(g); }, count, gate_to_dgate, x_to_y,
                        dy_to_dx);
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(forward_row);
HWY_EXPORT(backward_row);
HWY_EXPORT(gated_forward);
HWY_EXPORT(gated_backward);

namespace {

// An element costs several times what a copy costs.
constexpr int64_t kActivationGrain = 8192;

constexpr std::pair<Activation, std::string_view> kNames[] = {
    {Activation::kRelu, "relu"}, {Activation::kGeluTanh, "gelu_tanh"}, {Activation::kGeluErf, "gelu"},
    {Activation::kSilu, "silu"}, {Activation::kSwiGlu, "swiglu"},      {Activation::kGeGlu, "geglu"}};

}  // namespace

std::string_view activation_name(Activation activation) {
  for (const auto& [value, name] : kNames)
    if (value == activation) return name;
  return "";
}

Activation activation_from_name(std::string_view name) {
  for (const auto& [value, known] : kNames)
    if (name == known) return value;
  fail(ErrorKind::kUse, "activation: '{}' is unknown; choose relu, gelu_tanh, gelu, silu, swiglu or geglu",
       name);
}

void activation_forward_row(Activation activation, int64_t count, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(forward_row)(activation, static_cast<size_t>(count), x, y);
}

void activation_backward_row(Activation activation, int64_t count, float* x_to_y, float* dy_to_dx) {
  HWY_DYNAMIC_DISPATCH(backward_row)(activation, static_cast<size_t>(count), x_to_y, dy_to_dx);
}

void gated_forward_row(Activation activation, int64_t count, const float* gate, const float* x, float* y) {
  HWY_DYNAMIC_DISPATCH(gated_forward)(activation, static_cast<size_t>(count), gate, x, y);
}

void gated_backward_row(Activation activation, int64_t count, float* gate_to_dgate, float* x_to_y,
                        float* dy_to_dx) {
  HWY_DYNAMIC_DISPATCH(gated_backward)
  (activation, static_cast<size_t>(count), gate_to_dgate, x_to_y, dy_to_dx);
}

void activation_forward(Executor& executor, Activation activation, int64_t count, const float* x, float* y) {
  parallel_for(executor, count, kActivationGrain, [&](int64_t begin, int64_t end, int) {
    activation_forward_row(activation, end - begin, x + begin, y + begin);
  });
}

void activation_backward(Executor& executor, Activation activation, int64_t count, float* x_to_y,
                         float* dy_to_dx) {
  parallel_for(executor, count, kActivationGrain, [&](int64_t begin, int64_t end, int) {
    activation_backward_row(activation, end - begin, x_to_y + begin, dy_to_dx + begin);
  });
}

}  // namespace tril
#endif  // HWY_ONCE
