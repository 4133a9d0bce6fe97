#include "tril/kernels/adamw.h"

#include <gtest/gtest.h>

#include "tests/reference/adamw.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using testing::convert;
using testing::expect_same_bits;
using testing::expect_within_naive;
using testing::for_each_target;
using testing::Guarded;
using testing::kInfinity;
using testing::kNan;
using testing::random_floats;

constexpr AdamWStep kStep{.learning_rate = 3e-3f, .weight_decay = 0.1f, .gradient_scale = 0.7f};

// One parameter under the kernel, all arrays misaligned and guarded.
struct Parameter {
  explicit Parameter(size_t count)
      : w(random_floats(1, count), 1),
        g(count, 2),
        m(std::vector<float>(count), 3),
        v(std::vector<float>(count), 4) {}
  void step(Executor& executor, const AdamWStep& s, const std::vector<float>& gradients) {
    std::copy(gradients.begin(), gradients.end(), g.data());
    adamw(executor, s, static_cast<int64_t>(gradients.size()), w.data(), g.data(), m.data(), v.data());
    testing::expect_all_zero("gradients after the step", g.span());
    for (const Guarded* a : {&w, &g, &m, &v}) a->expect_intact("adamw");
  }
  Guarded w, g, m, v;
};

void expect_right(Executor& executor, size_t count, int64_t steps) {
  SCOPED_TRACE(std::to_string(count) + " weights");
  Parameter p(count);
  std::vector<float> w = p.w.values(), m(count), v(count);
  std::vector<double> exact_w = convert<double>(w), exact_m(count), exact_v(count);
  for (int64_t t = 1; t <= steps; ++t) {
    AdamWStep s = kStep;
    s.step = t;
    const std::vector<float> g = random_floats(static_cast<uint64_t>(100 + t), count);
    reference::adamw(s, exact_w, convert<double>(g), exact_m, exact_v);
    reference::adamw(s, w, g, m, v);
    p.step(executor, s, g);
  }
  expect_within_naive("w", p.w.span(), exact_w, w, 2);
  expect_within_naive("m", p.m.span(), exact_m, m, 2);
  expect_within_naive("v", p.v.span(), exact_v, v, 2);
}

TEST(AdamW, SeveralStepsOfOddLengths) {
  for_each_target([] {
    SerialExecutor serial;
    for (size_t count = 1; count <= 70; ++count) {
      expect_right(serial, count, 12);
      if (HasFatalFailure()) return;
    }
    expect_right(serial, 20001, 5);
  });
}

TEST(AdamW, SameBitsOnAnyNumberOfThreads) {
  testing::expect_same_for_any_threads("adamw", [](Executor& executor) {
    constexpr size_t kCount = 70001;
    Parameter p(kCount);
    p.step(executor, kStep, random_floats(2, kCount));
    std::vector<float> all = p.w.values();
    for (Guarded* a : {&p.m, &p.v}) all.insert(all.end(), a->span().begin(), a->span().end());
    return all;
  });
}

// The decay acts on the weight directly: it does not pass through the moments, where its size would be lost.
TEST(AdamW, DecayIsDecoupled) {
  for_each_target([] {
    SerialExecutor serial;
    Parameter p(67);
    const std::vector<float> before = p.w.values();
    p.step(serial, kStep, std::vector<float>(67, 0.0f));
    for (size_t i = 0; i < 67; ++i) EXPECT_FLOAT_EQ(p.w.span()[i], before[i] * (1 - 3e-4f));
    testing::expect_all_zero("m", p.m.span());
    testing::expect_all_zero("v", p.v.span());
  });
}

// 1 - 9.8e-7 in float is 3 % off; the mean of many weights shows what decay was applied.
TEST(AdamW, SmallDecayIsNotRoundedAway) {
  for_each_target([] {
    SerialExecutor serial;
    constexpr size_t kCount = 4096;
    AdamWStep s = kStep;
    s.learning_rate = 9.8e-6f;
    s.weight_decay = 0.1f;
    std::vector<float> w(kCount), g(kCount), m(kCount), v(kCount);
    for (size_t i = 0; i < kCount; ++i) w[i] = 1 + static_cast<float>(i) / kCount;
    const std::vector<float> before = w;
    adamw(serial, s, kCount, w.data(), g.data(), m.data(), v.data());
    double change = 0, sum = 0;
    for (size_t i = 0; i < kCount; ++i) change += double{before[i]} - w[i], sum += before[i];
    EXPECT_NEAR(change / sum / 9.8e-7, 1, 0.01);
  });
}

TEST(AdamW, FirstStepMovesByTheLearningRate) {
  for_each_target([] {
    SerialExecutor serial;
    AdamWStep s = kStep;
    s.weight_decay = 0;
    std::vector<float> w = {1, 1, 1, 1}, g = {5, -5, 1e-3f, -1e3f}, m(4), v(4);
    adamw(serial, s, 4, w.data(), g.data(), m.data(), v.data());
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(w[i], i % 2 == 0 ? 1 - 3e-3 : 1 + 3e-3, 1e-6);
  });
}

TEST(AdamW, GradientScaleIsAppliedFirst) {
  for_each_target([] {
    SerialExecutor serial;
    std::vector<float> g = random_floats(5, 41);
    AdamWStep s = kStep;
    s.gradient_scale = 0.25f;
    Parameter scaled(41), plain(41);
    scaled.step(serial, s, g);
    for (float& x : g) x *= 0.25f;
    s.gradient_scale = 1;
    plain.step(serial, s, g);
    expect_same_bits("w", scaled.w.span(), plain.w.span());
    expect_same_bits("v", scaled.v.span(), plain.v.span());
  });
}

TEST(AdamW, SpecialGradients) {
  for_each_target([] {
    SerialExecutor serial;
    std::vector<float> w(5, 1.0f), g = {0.0f, 1e-40f, kNan, kInfinity, 1e-30f}, m(5), v(5);
    AdamWStep s = kStep;
    s.weight_decay = 0;
    s.gradient_scale = 1;
    adamw(serial, s, 5, w.data(), g.data(), m.data(), v.data());
    EXPECT_EQ(w[0], 1.0f);
    EXPECT_EQ(w[1], 1.0f);
    EXPECT_TRUE(std::isnan(w[2]));
    EXPECT_TRUE(std::isnan(w[3]));
    EXPECT_EQ(w[4], 1.0f);  // far below epsilon
    for (const float x : g) EXPECT_EQ(x, 0.0f);
  });
}

TEST(AdamW, AveragesTheWeights) {
  for_each_target([] {
    SerialExecutor serial;
    constexpr size_t kCount = 71;
    const std::vector<float> g = random_floats(2, kCount), start = random_floats(3, kCount);
    Parameter plain(kCount), averaged(kCount);
    plain.step(serial, kStep, g);
    Guarded average(start, 5), gradients(g, 2);
    AdamWStep s = kStep;
    s.averaging = 0.25f;
    adamw_range(adamw_factors(s), {kCount, averaged.w.data(), gradients.data(), averaged.m.data(),
                                   averaged.v.data(), average.data()});
    average.expect_intact("average");
    expect_same_bits("w", averaged.w.span(), plain.w.span());
    for (size_t i = 0; i < kCount; ++i)
      EXPECT_FLOAT_EQ(average.span()[i], start[i] + 0.25f * (plain.w.span()[i] - start[i])) << i;
  });
}

// One parameter whose moments are stored as bfloat16.
struct HalfParameter {
  explicit HalfParameter(size_t count) : w(random_floats(1, count)), m(count), v(count) {}
  // In ranges of this length.
  void step(const AdamWStep& s, std::vector<float> g, size_t range = 1 << 20, uint64_t key = 7) {
    for (size_t i = 0; i < w.size(); i += range) {
      const auto n = static_cast<int64_t>(std::min(range, w.size() - i));
      adamw_range(adamw_factors(s),
                  AdamWRange<Bfloat16>{n, w.data() + i, g.data() + i, m.data() + i, v.data() + i, nullptr},
                  {key, 3, i});
    }
    testing::expect_all_zero("gradients", g);
  }
  std::vector<float> w;
  std::vector<Bfloat16> m, v;
};

TEST(AdamWInHalves, ComputesInFloatsAndRoundsAfterwards) {
  for_each_target([] {
    SerialExecutor serial;
    for (const size_t count : {1u, 7u, 64u, 333u}) {
      const std::vector<float> g = random_floats(2, count);
      HalfParameter half(count);
      Parameter whole(count);
      for (int64_t t = 1; t <= 3; ++t) {
        AdamWStep s = kStep;
        s.step = t;
        whole.step(serial, s, g);
        half.step(s, g);
        if (count > 1) expect_same_bits("w", half.w, whole.w.span());
        for (size_t i = 0; i < count; ++i) {
          EXPECT_EQ(half.m[i].bits, to_bfloat16(whole.m.span()[i]).bits) << i;
          const float v = whole.v.span()[i], stored = to_float(half.v[i]);
          const uint32_t below = std::bit_cast<uint32_t>(v) >> 16;
          EXPECT_TRUE(half.v[i].bits == below || half.v[i].bits == below + 1) << v << " " << stored;
          whole.m.data()[i] = to_float(half.m[i]);
          whole.v.data()[i] = stored;
        }
      }
    }
  });
}

TEST(AdamWInHalves, DoesNotDependOnHowItIsCut) {
  for_each_target([] {
    const std::vector<float> g = random_floats(2, 1001);
    HalfParameter once(1001), pieces(1001), other(1001);
    once.step(kStep, g);
    pieces.step(kStep, g, 77);
    other.step(kStep, g, 77, /*key=*/8);
    expect_same_bits("w", once.w, pieces.w);
    int differ = 0;
    for (size_t i = 0; i < 1001; ++i) {
      EXPECT_EQ(once.m[i].bits, pieces.m[i].bits);
      EXPECT_EQ(once.v[i].bits, pieces.v[i].bits);
      differ += once.v[i].bits != other.v[i].bits;
    }
    EXPECT_GT(differ, 200);  // other draws, other roundings
  });
}

// Why v is rounded at random: its gradients shrink to a tenth, and v should follow to a hundredth. A step
// changes v by at most a thousandth of itself, less than half of bfloat16's last place, so that rounding to
// the nearest leaves it where it was.
TEST(AdamWInHalves, VFollowsGradientsThatShrink) {
  constexpr size_t kCount = 4096;
  AdamWStep s = kStep;
  s.beta2 = 0.999f;
  s.gradient_scale = 1;
  HalfParameter half(kCount);
  std::fill(half.v.begin(), half.v.end(), to_bfloat16(1));
  const std::vector<float> g(kCount, 0.1f);
  float nearest = 1;
  double exact = 1;
  for (uint64_t t = 0; t < 3000; ++t) {
    half.step(s, g, 1 << 20, t);
    exact = 0.999 * exact + 0.001 * 0.01;
    nearest = to_float(to_bfloat16(0.999f * nearest + 0.001f * 0.01f));
  }
  EXPECT_EQ(nearest, 1);
  double mean = 0;
  for (const Bfloat16& v : half.v) mean += to_float(v) / kCount;
  EXPECT_NEAR(exact, 0.05922, 1e-5);
  EXPECT_NEAR(mean / exact, 1, 0.02);
}

double sum_of_squares_of(const std::vector<float>& x) {
  return sum_of_squares(static_cast<int64_t>(x.size()), x.data());
}

TEST(SumOfSquares, IsExactToDouble) {
  for_each_target([] {
    EXPECT_EQ(sum_of_squares_of({}), 0.0);
    for (size_t count : {1, 2, 3, 5, 7, 8, 9, 31, 33, 63, 65, 70, 16384, 16385, 100003}) {
      Guarded x(random_floats(count, count), count % 7);
      long double exact = 0;
      for (const float v : x.span()) exact += static_cast<long double>(v) * v;
      const double sum = sum_of_squares(static_cast<int64_t>(count), x.data());
      EXPECT_NEAR(sum / static_cast<double>(exact), 1, 1e-13) << count;
    }
    // 1e8 and a million times 1e-2: a float sum would not move. No overflow where the square exceeds
    // float.
    std::vector<float> x(1000000, 0.1f);
    x[0] = 1e4f;
    EXPECT_NEAR(sum_of_squares_of(x), 1e8 + 999999 * (double{0.1f} * 0.1f), 7e-3);  // 1e6 halves of an ulp
    EXPECT_NEAR(sum_of_squares_of({1e30f, 1e-30f}), double{1e30f} * 1e30f, 1e45);
    EXPECT_TRUE(std::isnan(sum_of_squares_of({1, kNan, 2})));
    EXPECT_EQ(sum_of_squares_of({1, -kInfinity, 2}), kInfinity);
  });
}

TEST(AdamW, DryExecutorTouchesNothing) {
  DryExecutor dry(2);
  adamw(dry, kStep, 100000, nullptr, nullptr, nullptr, nullptr);
}

}  // namespace
}  // namespace tril
