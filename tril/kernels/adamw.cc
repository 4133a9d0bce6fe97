#include "tril/kernels/adamw.h"

#include <cmath>

#include "tril/kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/adamw.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/rows-inl.h"

#ifndef TRIL_KERNELS_ADAMW_FACTORS_
#define TRIL_KERNELS_ADAMW_FACTORS_
namespace tril {
namespace {

// The constants of one step, rounded to float once.
struct AdamWFactors {
  float gradient_scale;
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;        // learning rate / (1 - beta1^t)
  float inverse_sqrt_c2;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float decay;  // learning rate * weight decay
};

}  // namespace
}  // namespace tril
#endif

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

void adamw_chunk(const AdamWFactors& f, size_t count, float* weights, float* gradients, float* first,
                 float* second) {
  const FloatTag d;
  const FloatVector scale = hn::Set(d, f.gradient_scale);
  const FloatVector beta1 = hn::Set(d, f.beta1), rest1 = hn::Set(d, f.one_minus_beta1);
  const FloatVector beta2 = hn::Set(d, f.beta2), rest2 = hn::Set(d, f.one_minus_beta2);
  const FloatVector step_size = hn::Set(d, f.step_size), decay = hn::Set(d, f.decay);
  const FloatVector inverse = hn::Set(d, f.inverse_sqrt_c2), epsilon = hn::Set(d, f.epsilon);
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector g = hn::Mul(access.load(gradients + i), scale);
    const FloatVector m = hn::MulAdd(beta1, access.load(first + i), hn::Mul(rest1, g));
    const FloatVector v = hn::MulAdd(beta2, access.load(second + i), hn::Mul(hn::Mul(rest2, g), g));
    const FloatVector denominator = hn::MulAdd(hn::Sqrt(v), inverse, epsilon);
    const FloatVector w = access.load(weights + i);
    // Decay and update leave w in one subtraction: 1 - lr * decay would round away a small decay.
    const FloatVector change = hn::MulAdd(decay, w, hn::Div(hn::Mul(step_size, m), denominator));
    access.store(hn::Sub(w, change), weights + i);
    access.store(m, first + i);
    access.store(v, second + i);
    access.store(hn::Zero(d), gradients + i);
  });
}

double sum_of_squares_chunk(size_t count, const float* x) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> half;
  const size_t lanes = hn::Lanes(d);
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  size_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    const auto x0 = hn::PromoteTo(d, hn::LoadU(half, x + i));
    const auto x1 = hn::PromoteTo(d, hn::LoadU(half, x + i + lanes));
    const auto x2 = hn::PromoteTo(d, hn::LoadU(half, x + i + 2 * lanes));
    const auto x3 = hn::PromoteTo(d, hn::LoadU(half, x + i + 3 * lanes));
    s0 = hn::MulAdd(x0, x0, s0);
    s1 = hn::MulAdd(x1, x1, s1);
    s2 = hn::MulAdd(x2, x2, s2);
    s3 = hn::MulAdd(x3, x3, s3);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
  for (; i < count; ++i) sum += double{x[i]} * double{x[i]};
  return sum;
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(adamw_chunk);
HWY_EXPORT(sum_of_squares_chunk);

namespace {

AdamWFactors factors(const AdamWStep& s) {
  const double lr = s.learning_rate, b1 = s.beta1, b2 = s.beta2;
  const double t = static_cast<double>(s.step);
  const auto f = [](double x) { return static_cast<float>(x); };
  return {s.gradient_scale,
          s.beta1,
          f(1.0 - b1),
          s.beta2,
          f(1.0 - b2),
          f(lr / (1.0 - std::pow(b1, t))),
          f(1.0 / std::sqrt(1.0 - std::pow(b2, t))),
          s.epsilon,
          f(lr * s.weight_decay)};
}

}  // namespace

void adamw(Executor& executor, const AdamWStep& step, int64_t count, float* weights, float* gradients,
           float* m, float* v) {
  const AdamWFactors f = factors(step);
  parallel_for(executor, count, kChunkElements, [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(adamw_chunk)
    (f, static_cast<size_t>(end - begin), weights + begin, gradients + begin, m + begin, v + begin);
  });
}

int64_t sum_of_squares_partials(int64_t count) { return divide_up(count, kChunkElements); }

void sum_of_squares(Executor& executor, int64_t count, const float* x, double* partial_sums, double* sum) {
  parallel_for(executor, count, kChunkElements, [&](int64_t begin, int64_t end, int) {
    partial_sums[begin / kChunkElements] =
        HWY_DYNAMIC_DISPATCH(sum_of_squares_chunk)(static_cast<size_t>(end - begin), x + begin);
  });
  executor.run(1, [&](int64_t, int) {
    double total = 0;
    for (int64_t k = 0; k < sum_of_squares_partials(count); ++k) total += partial_sums[k];
    *sum = total;
  });
}

}  // namespace tril
#endif  // HWY_ONCE
