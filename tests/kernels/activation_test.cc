#include "tril/kernels/activation.h"

#include <gtest/gtest.h>

#include "tests/reference/activation.h"
#include "tests/support/expect_error.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using reference::Complex;
using testing::expect_same_bits;
using testing::expect_within_naive;
using testing::for_each_target;
using testing::Guarded;
using testing::kInfinity;
using testing::kNan;
using testing::random_floats;

constexpr Activation kAll[] = {Activation::kRelu, Activation::kGeluTanh, Activation::kGeluErf,
                               Activation::kSilu};

template <class T>
std::vector<T> values(Activation a, const std::vector<float>& x) {
  std::vector<T> y;
  for (const float v : x) y.push_back(reference::activate(a, T(v)));
  return y;
}

template <class T>
std::vector<T> gradients(Activation a, const std::vector<float>& x, const std::vector<float>& dy) {
  std::vector<T> dx;
  for (size_t i = 0; i < x.size(); ++i) dx.push_back(T(dy[i]) * reference::activation_slope(a, T(x[i])));
  return dx;
}

float value_at(Activation a, float x) {
  float y = kNan;
  activation_forward_row(a, 1, &x, &y);
  return y;
}

float slope_at(Activation a, float x) {
  float dy = 1;
  activation_backward_row(a, 1, &x, &dy);
  return dy;
}

TEST(ActivationReference, SlopeIsTheComplexStepOfTheValue) {
  for (const Activation a : kAll) {
    std::vector<double> x = {-11, -7.5, -4.3, -3, -1.7, -0.4, -1e-3, 1e-5, 0.2, 0.9, 2.1, 3.5, 4.242, 6, 12};
    std::vector<double> slope;
    for (const double v : x) slope.push_back(reference::activation_slope(a, v));
    testing::expect_complex_step(
        std::string(activation_name(a)),
        [&](const std::vector<Complex>& z) {
          Complex sum = 0;
          for (const Complex& v : z) sum += reference::activate(a, v);
          return sum;
        },
        x, slope);
  }
}

TEST(ActivationReference, ComplexErfAndTanhOnTheRealLineAndOffIt) {
  for (double x = -6; x <= 6; x += 0.37) {
    EXPECT_NEAR(reference::erf_of(Complex(x, 0)).real(), std::erf(x), 1e-14) << x;
    EXPECT_NEAR(reference::tanh_of(Complex(x, 0)).real(), std::tanh(x), 1e-15) << x;
  }
  // Abramowitz & Stegun, table 7.9 turned from w(z): erf(1 + i) = 1.3161512816979476 + 0.1904534692378347 i.
  EXPECT_NEAR(reference::erf_of(Complex(1, 1)).real(), 1.3161512816979476, 1e-14);
  EXPECT_NEAR(reference::erf_of(Complex(1, 1)).imag(), 0.1904534692378347, 1e-14);
  EXPECT_NEAR(std::abs(reference::tanh_of(Complex(0.3, 0.8)) - std::tanh(Complex(0.3, 0.8))), 0, 1e-15);
}

void expect_right(Activation a, size_t count, size_t misalignment) {
  const std::string what = std::string(activation_name(a)) + " of " + std::to_string(count);
  const std::vector<float> x = random_floats(count, count, 2.5), dy = random_floats(count + 1, count);
  Guarded in(x, misalignment), out(count, misalignment + 1), y(x, misalignment), dx(dy, misalignment + 2);
  activation_forward_row(a, static_cast<int64_t>(count), in.data(), out.data());
  activation_backward_row(a, static_cast<int64_t>(count), y.data(), dx.data());
  expect_within_naive(what, out.span(), values<double>(a, x), values<float>(a, x), 2);
  expect_within_naive(what + " again", y.span(), values<double>(a, x), values<float>(a, x), 2);
  expect_within_naive(what + " gradient", dx.span(), gradients<double>(a, x, dy), gradients<float>(a, x, dy),
                      3);
  for (const Guarded* g : {&in, &out, &y, &dx}) g->expect_intact(what);
  expect_same_bits(what + " input", in.span(), x);
}

TEST(Activation, OddLengthsAndAlignments) {
  for_each_target([] {
    for (const Activation a : kAll) {
      // ReLU of a few numbers may be constant.
      for (size_t count = a == Activation::kRelu ? 8 : 1; count <= 70; ++count) {
        expect_right(a, count, count % 5);
        if (HasFatalFailure()) return;
      }
      expect_right(a, 5003, 3);
    }
  });
}

// Neither the position in a row nor the cutting into vectors changes a result.
TEST(Activation, ElementsDoNotDependOnTheirNeighbours) {
  for_each_target([] {
    for (const Activation a : kAll) {
      const std::vector<float> x = random_floats(1, 67, 2), dy = random_floats(2, 67);
      std::vector<float> y = x, dx = dy, one_y = x, one_dx = dy;
      activation_backward_row(a, 67, y.data(), dx.data());
      for (size_t i = 0; i < 67; ++i) activation_backward_row(a, 1, &one_y[i], &one_dx[i]);
      expect_same_bits("y", y, one_y);
      expect_same_bits("dx", dx, one_dx);
      std::vector<float> forward = x;
      activation_forward_row(a, 67, forward.data(), forward.data());  // in place
      expect_same_bits("forward", forward, y);
    }
  });
}

TEST(Activation, SameBitsOnAnyNumberOfThreads) {
  for (const Activation a : kAll) {
    testing::expect_same_for_any_threads(std::string(activation_name(a)), [&](Executor& executor) {
      constexpr int64_t kCount = 50001;
      std::vector<float> x = random_floats(1, kCount), dx = random_floats(2, kCount), y(kCount);
      activation_forward(executor, a, kCount, x.data(), y.data());
      activation_backward(executor, a, kCount, x.data(), dx.data());
      expect_same_bits("y", x, y);
      y.insert(y.end(), dx.begin(), dx.end());
      return y;
    });
  }
}

TEST(Activation, SpecialValues) {
  for_each_target([] {
    for (const Activation a : kAll) {
      SCOPED_TRACE(activation_name(a));
      EXPECT_EQ(value_at(a, 0.0f), 0.0f);
      EXPECT_EQ(value_at(a, -0.0f), 0.0f);
      for (const float x : {20.0f, 100.0f, 1e4f, 1e20f, 1e30f, kInfinity}) {
        if (a == Activation::kSilu && x < 100) continue;  // silu(-20) is not small enough
        EXPECT_EQ(value_at(a, x), x);
        EXPECT_EQ(value_at(a, -x), 0.0f) << x;
        EXPECT_EQ(slope_at(a, x), 1.0f) << x;
        EXPECT_EQ(slope_at(a, -x), 0.0f) << x;
      }
      EXPECT_TRUE(std::isnan(value_at(a, kNan)));
    }
    EXPECT_EQ(slope_at(Activation::kRelu, 0.0f), 0.0f);
    EXPECT_EQ(slope_at(Activation::kRelu, -0.0f), 0.0f);
    EXPECT_EQ(slope_at(Activation::kRelu, 1e-40f), 1.0f);
    for (const Activation a : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kSilu}) {
      SCOPED_TRACE(activation_name(a));
      EXPECT_EQ(slope_at(a, 0.0f), 0.5f);
      EXPECT_EQ(slope_at(a, 1e-30f), 0.5f);
      EXPECT_EQ(slope_at(a, -1e-30f), 0.5f);
      EXPECT_EQ(value_at(a, 1e-30f), 0.5e-30f);
      EXPECT_EQ(value_at(a, -1e-30f), -0.5e-30f);
      EXPECT_EQ(value_at(a, 1e-40f), 0.5f * 1e-40f);  // denormal
      EXPECT_TRUE(std::isnan(slope_at(a, kNan)));
    }
  });
}

TEST(Activation, ReluPassesNothingThroughADeadUnit) {
  for_each_target([] {
    for (const float g : {kNan, kInfinity}) {
      float x = -1, dy = g;
      activation_backward_row(Activation::kRelu, 1, &x, &dy);
      EXPECT_EQ(dy, 0.0f);
    }
  });
}

// The negative tail keeps its relative accuracy; 0.5 x (1 + tanh u) in float has none left there.
TEST(Activation, GeluTailIsRelativelyAccurate) {
  for_each_target([] {
    for (float x = -9; x <= -1; x += 0.01f) {
      const double z = x, u = 2 * std::sqrt(2 / std::numbers::pi) * (z + 0.044715 * z * z * z);
      const double exact_tanh = z / (1 + std::exp(-u)), exact_erf = 0.5 * z * std::erfc(-z / std::sqrt(2.0));
      EXPECT_NEAR(value_at(Activation::kGeluTanh, x) / exact_tanh, 1, 1e-5) << x;
      EXPECT_NEAR(value_at(Activation::kGeluErf, x) / exact_erf, 1, 1e-5) << x;
    }
  });
}

TEST(Activation, TheTwoGelusDiffer) {
  EXPECT_NEAR(value_at(Activation::kGeluErf, 1) - value_at(Activation::kGeluTanh, 1), 1.5e-4, 1e-5);
}

constexpr Activation kGated[] = {Activation::kSwiGlu, Activation::kGeGlu};

template <class T>
struct Gated {
  std::vector<T> y, dx, dgate;
  Gated(Activation a, const std::vector<float>& gate, const std::vector<float>& x,
        const std::vector<float>& dy) {
    const Activation f = reference::gate_of(a);
    for (size_t i = 0; i < x.size(); ++i) {
      const T open = reference::activate(f, T(gate[i]));
      y.push_back(open * T(x[i]));
      dx.push_back(T(dy[i]) * open);
      dgate.push_back(T(dy[i]) * T(x[i]) * reference::activation_slope(f, T(gate[i])));
    }
  }
};

TEST(GatedActivation, OddLengthsAndAlignments) {
  for_each_target([] {
    for (const Activation a : kGated) {
      SCOPED_TRACE(activation_name(a));
      for (size_t count : {1u, 2u, 7u, 8u, 15u, 16u, 17u, 33u, 5003u}) {
        const auto gate = random_floats(1, count, 2.5), x = random_floats(2, count),
                   dy = random_floats(3, count);
        const Gated<double> exact(a, gate, x, dy);
        const Gated<float> naive(a, gate, x, dy);
        Guarded y(count, 1), dgate(gate, 2), again(x, 3), dx(dy, 4);
        const auto n = static_cast<int64_t>(count);
        gated_forward_row(a, n, gate.data(), x.data(), y.data());
        gated_backward_row(a, n, dgate.data(), again.data(), dx.data());
        expect_within_naive("y", y.span(), exact.y, naive.y, 2);
        expect_within_naive("y again", again.span(), exact.y, naive.y, 2);
        expect_within_naive("dx", dx.span(), exact.dx, naive.dx, 3);
        expect_within_naive("dgate", dgate.span(), exact.dgate, naive.dgate, 3);
        for (const Guarded* g : {&y, &dgate, &again, &dx}) g->expect_intact("gated");
      }
    }
  });
}

TEST(Activation, Names) {
  for (const Activation a : kGated) {
    EXPECT_EQ(activation_from_name(activation_name(a)), a);
    EXPECT_TRUE(is_gated(a));
  }
  EXPECT_FALSE(is_gated(Activation::kSilu));
  for (const Activation a : kAll) EXPECT_EQ(activation_from_name(activation_name(a)), a);
  testing::expect_error(ErrorKind::kUse, {"'swish'"}, [] { activation_from_name("swish"); });
}

TEST(Activation, DryExecutorTouchesNothing) {
  DryExecutor dry(2);
  activation_forward(dry, Activation::kGeluTanh, 100000, nullptr, nullptr);
  activation_backward(dry, Activation::kGeluErf, 100000, nullptr, nullptr);
}

}  // namespace
}  // namespace tril
