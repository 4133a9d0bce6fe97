#include "tril/kernels/adamw.h"

#include <cmath>

#include "tril/kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/adamw.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/bfloat16-inl.h"
#include "tril/kernels/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

template <bool kAverage>
HWY_INLINE void update_elements(const AdamWFactors& f, size_t count, const AdamWRange<float>& range) {
  const FloatTag d;
  const FloatVector scale = hn::Set(d, f.gradient_scale);
  const FloatVector beta1 = hn::Set(d, f.beta1), rest1 = hn::Set(d, f.one_minus_beta1);
  const FloatVector beta2 = hn::Set(d, f.beta2), rest2 = hn::Set(d, f.one_minus_beta2);
  const FloatVector step_size = hn::Set(d, f.step_size), decay = hn::Set(d, f.decay);
  const FloatVector inverse = hn::Set(d, f.inverse_sqrt_c2), epsilon = hn::Set(d, f.epsilon);
  const FloatVector averaging = hn::Set(d, f.averaging);
  for_each_vector(count, [&](size_t i, auto access) HWY_ATTR {
    const FloatVector g = hn::Mul(access.load(range.gradients + i), scale);
    const FloatVector m = hn::MulAdd(beta1, access.load(range.m + i), hn::Mul(rest1, g));
    const FloatVector v = hn::MulAdd(beta2, access.load(range.v + i), hn::Mul(hn::Mul(rest2, g), g));
    const FloatVector denominator = hn::MulAdd(hn::Sqrt(v), inverse, epsilon);
    const FloatVector w = access.load(range.weights + i);
    // Decay and update leave w in one subtraction: 1 - lr * decay would round away a small decay.
    const FloatVector change = hn::MulAdd(decay, w, hn::Div(hn::Mul(step_size, m), denominator));
    const FloatVector updated = hn::Sub(w, change);
    access.store(updated, range.weights + i);
    access.store(m, range.m + i);
    access.store(v, range.v + i);
    access.store(hn::Zero(d), range.gradients + i);
    if constexpr (kAverage) {
      const FloatVector average = access.load(range.average + i);
      access.store(hn::MulAdd(averaging, hn::Sub(updated, average), average), range.average + i);
    }
  });
}

void adamw_floats(const AdamWFactors& f, size_t count, const AdamWRange<float>& range) {
  if (range.average != nullptr)
    update_elements<true>(f, count, range);
  else
    update_elements<false>(f, count, range);
}

// A few elements at a time, whose moments are floats on the stack meanwhile.
void adamw_halves(const AdamWFactors& f, const AdamWRange<Bfloat16>& range, const RandomWords& rounding) {
  const auto all = static_cast<size_t>(range.count);
  for_each_words(rounding.key, rounding.substream, rounding.first, all,
                 [&](size_t i, size_t count, const uint32_t* words) HWY_ATTR {
                   HWY_ALIGN float m[kWords], v[kWords];
                   floats_of(count, range.m + i, m);
                   floats_of(count, range.v + i, v);
                   float* const average = range.average != nullptr ? range.average + i : nullptr;
                   adamw_floats(f, count, {0, range.weights + i, range.gradients + i, m, v, average});
                   round_to_nearest(count, m, range.m + i);
                   round_stochastically(count, words, v, range.v + i);
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

HWY_EXPORT(adamw_floats);
HWY_EXPORT(adamw_halves);
HWY_EXPORT(sum_of_squares_chunk);

AdamWFactors adamw_factors(const AdamWStep& s) {
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
          f(lr * s.weight_decay),
          s.averaging};
}

void adamw_range(const AdamWFactors& factors, const AdamWRange<float>& range) {
  HWY_DYNAMIC_DISPATCH(adamw_floats)(factors, static_cast<size_t>(range.count), range);
}

void adamw_range(const AdamWFactors& factors, const AdamWRange<Bfloat16>& range,
                 const RandomWords& rounding) {
  HWY_DYNAMIC_DISPATCH(adamw_halves)(factors, range, rounding);
}

void adamw(Executor& executor, const AdamWStep& step, int64_t count, float* weights, float* gradients,
           float* m, float* v) {
  const AdamWFactors factors = adamw_factors(step);
  parallel_for(executor, count, kChunkElements, [&](int64_t begin, int64_t end, int) {
    adamw_range(factors, {end - begin, weights + begin, gradients + begin, m + begin, v + begin, nullptr});
  });
}

double sum_of_squares(int64_t count, const float* x) {
  return HWY_DYNAMIC_DISPATCH(sum_of_squares_chunk)(static_cast<size_t>(count), x);
}

}  // namespace tril
#endif  // HWY_ONCE
