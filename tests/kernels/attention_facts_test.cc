// Facts about attention that tutorials get wrong, shown at the kernel; docs/attention.md names these tests.
#include <cmath>

#include "tests/kernels/attention_case.h"

namespace tril {
namespace {

using testing::AttentionCase;
using testing::AttentionResult;
using testing::largest_difference;

struct Sharpness {
  double entropy;   // mean over the rows of -sum p log p, as a share of log(number of keys)
  double gradient;  // root mean square of ds = p (dp - delta), for unit dp
};

// Rows of random unit-variance queries and keys: how far from uniform is their softmax?
Sharpness measure(int64_t head_size, float scale) {
  constexpr int64_t T = 64;
  const AttentionCase c({1, 8, 8, T, T, head_size}, {.scale = scale, .causal = false});
  const AttentionResult r = c.run();
  const testing::Rows query = c.query_rows(c.query), key = c.key_rows(c.key);
  const std::vector<float> dp = testing::random_floats(5, T * T);
  Sharpness sharpness{0, 0};
  std::vector<float> weights(T * T);
  for (int64_t h = 0; h < 8; ++h) {
    attention_weights(c.shape, c.options, query.const_view(), key.const_view(), r.running_max.data(),
                      r.running_sum.data(), 0, h, weights.data());
    for (int64_t i = 0; i < T; ++i) {
      const float *p = &weights[i * T], *d = &dp[i * T];
      double delta = 0;
      for (int64_t j = 0; j < T; ++j) delta += p[j] * d[j];
      for (int64_t j = 0; j < T; ++j) {
        if (p[j] > 0) sharpness.entropy -= p[j] * std::log(p[j]) / (8 * T * std::log(T));
        sharpness.gradient += std::pow(p[j] * (d[j] - delta), 2) / (8 * T * T);
      }
    }
  }
  sharpness.gradient = std::sqrt(sharpness.gradient);
  return sharpness;
}

// With 1 / sqrt(D) the softmax looks the same at every head size. Without, its entropy falls as D grows, and
// with it the gradient that reaches queries and keys.
TEST(AttentionFacts, WithoutTheScaleSoftmaxSaturatesAsHeadsGrow) {
  const Sharpness scaled16 = measure(16, 0), scaled256 = measure(256, 0);
  EXPECT_NEAR(scaled16.entropy, scaled256.entropy, 0.02);
  EXPECT_NEAR(scaled16.gradient / scaled256.gradient, 1, 0.1);
  EXPECT_GT(scaled256.entropy, 0.85);
  Sharpness last = measure(1, 1);
  for (const int64_t D : {4, 16, 64, 256}) {
    const Sharpness now = measure(D, 1);
    EXPECT_LT(now.entropy, 0.8 * last.entropy) << D;
    last = now;
    RecordProperty(fmt::format("entropy_{}", D), fmt::format("{:.3f}", now.entropy));
    RecordProperty(fmt::format("gradient_{}", D), fmt::format("{:.5f}", now.gradient));
  }
  EXPECT_LT(last.entropy, 0.1);
  EXPECT_LT(measure(1024, 1).gradient, 0.5 * measure(16, 1).gradient);
}

// The scale goes by the head size, not the model width: two tokens, two heads of size 1, worked by hand.
// Query 1 sees scores s = scale * {2 * 0, 2 * 1}; with head size 1 the scale is 1, p = {1, e^2} / (1 + e^2).
// A scale of 1 / sqrt(model width 2) would give {1, e^1.414} instead.
TEST(AttentionFacts, TheScaleIsOfTheHeadSize) {
  AttentionCase c({1, 2, 2, 2, 2, 1});
  c.query = {0, 0, 2, 2};
  c.key = {0, 0, 1, 1};
  c.value = {0, 0, 1, 1};
  const AttentionResult r = c.run();
  EXPECT_NEAR(r.out[2], std::exp(2.0) / (1 + std::exp(2.0)), 1e-6);
  EXPECT_NEAR(r.out[3], std::exp(2.0) / (1 + std::exp(2.0)), 1e-6);
}

// A key bias adds q_i . bias to the whole row i of the scores, and softmax does not see it. A query bias adds
// bias . k_j, different for each key; a value bias adds itself to the output, since the weights sum to 1.
TEST(AttentionFacts, OnlyTheKeyBiasCancels) {
  AttentionCase c({1, 2, 2, 50, 50, 16});
  const AttentionResult plain = c.run();
  const auto biased = [&](std::vector<float> AttentionCase::*x) {
    AttentionCase with = c;
    for (float& value : with.*x) value += 0.75f;
    return with.run().out;
  };
  EXPECT_LT(largest_difference(plain.out, biased(&AttentionCase::key)), 1e-5);
  EXPECT_GT(largest_difference(plain.out, biased(&AttentionCase::query)), 0.1);
  EXPECT_GT(largest_difference(plain.out, biased(&AttentionCase::value)), 0.7);
  std::vector<float> shifted = plain.out;
  for (float& value : shifted) value += 0.75f;
  EXPECT_LT(largest_difference(shifted, biased(&AttentionCase::value)), 1e-5);
}

// Backward with m and l apart against backward with m + log l in one float (and l = 1). A common direction of
// queries and keys lifts all scores to about 1e4. All inputs are multiples of 1/8, so that the scores are
// exact in float and the error is that of the softmax alone.
TEST(AttentionFacts, MaximumAndSumAreKeptApart) {
  constexpr int64_t T = 64, D = 16;
  AttentionCase c({1, 1, 1, T, T, D});
  for (auto* x : {&c.query, &c.key}) {
    for (float& value : *x) value = std::round(value * 8) / 8;
    for (int64_t t = 0; t < T; ++t) (*x)[t * D] = 200;
  }
  const testing::AttentionExpectation expectation(c);
  const AttentionResult apart = c.run();
  expectation.expect(c, apart, 0.1);
  std::vector<float> log_sum_exp = apart.running_max;
  const std::vector<float> ones(T, 1.0f);
  for (size_t i = 0; i < T; ++i) log_sum_exp[i] += std::log(apart.running_sum[i]);
  const testing::Rows q = c.query_rows(c.query), k = c.key_rows(c.key), v = c.key_rows(c.value),
                      out = c.query_rows(apart.out), dout = c.query_rows(c.dout);
  testing::Rows dq = q, dk = k, dv = v;
  std::vector<float> workspace(static_cast<size_t>(attention_workspace(c.shape, 1)));
  SerialExecutor serial;
  attention_backward(serial, c.shape, c.options, q.const_view(), k.const_view(), v.const_view(),
                     out.const_view(), log_sum_exp.data(), ones.data(), dout.const_view(), dq.view(),
                     dk.view(), dv.view(), workspace.data());
  const auto expect_worse = [&](const char* what, const std::vector<float>& a,
                                const std::vector<float>& together, const std::vector<double>& exact,
                                double factor) {
    const double ratio = largest_difference(together, exact) / largest_difference(a, exact);
    EXPECT_GT(ratio, factor) << what;
    RecordProperty(what, fmt::format("{:.0f}", ratio));
  };
  expect_worse("dquery", apart.dquery, dq.values(), expectation.exact_gradients.dquery, 10);
  expect_worse("dkey", apart.dkey, dk.values(), expectation.exact_gradients.dkey, 10);
  expect_worse("dvalue", apart.dvalue, dv.values(), expectation.exact_gradients.dvalue, 100);
}

}  // namespace
}  // namespace tril
