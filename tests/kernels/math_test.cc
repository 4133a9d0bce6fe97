#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/kernels/math_test.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tests/support/kernel_test.h"
#include "tril/kernels/math-inl.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

void exp_of_all(size_t count, const float* x, float* y) {
  for_each_vector(count, [&](size_t i, auto a)
                             HWY_ATTR { a.store(exp_of_nonpositive(FloatTag(), a.load(x + i)), y + i); });
}

void scaled_erfc_of_all(size_t count, const float* x, float* y) {
  for_each_vector(count, [&](size_t i, auto a)
                             HWY_ATTR { a.store(vector_scaled_erfc(FloatTag(), a.load(x + i)), y + i); });
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(exp_of_all);
HWY_EXPORT(scaled_erfc_of_all);

namespace {

using testing::for_each_target;
using testing::kInfinity;
using testing::kNan;

void vector_exp(const std::vector<float>& x, std::vector<float>& y) {
  HWY_DYNAMIC_DISPATCH(exp_of_all)(x.size(), x.data(), y.data());
}
void vector_scaled_erfc(const std::vector<float>& x, std::vector<float>& y) {
  HWY_DYNAMIC_DISPATCH(scaled_erfc_of_all)(x.size(), x.data(), y.data());
}

using Function = void (*)(const std::vector<float>&, std::vector<float>&);

// The spacing of floats at the size of x, that of the smallest ones for denormals.
double ulp(double x) {
  const double magnitude = std::max(std::abs(x), double{std::numeric_limits<float>::min()});
  return std::ldexp(1.0, std::ilogb(magnitude) - 23);
}

double largest_error(Function f, double (*exact)(double), const std::vector<float>& x) {
  std::vector<float> y(x.size());
  f(x, y);
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double e = exact(x[i]);
    const double error = std::abs(y[i] - e) / ulp(e);
    EXPECT_FALSE(std::isnan(error)) << x[i] << " gives " << y[i];
    worst = std::max(worst, error);
  }
  return worst;
}

// `count` numbers spread evenly over [low, high], and as many spread evenly in their exponents.
std::vector<float> spread(double low, double high, size_t count) {
  std::vector<float> x;
  for (size_t i = 0; i < count; ++i) {
    const double t = static_cast<double>(i) / static_cast<double>(count);
    x.push_back(static_cast<float>(low + (high - low) * t));
    const double small = std::exp2(-149 + t * 148);
    x.push_back(static_cast<float>(high * small));
    x.push_back(static_cast<float>(low * small));
  }
  return x;
}

double exact_exp(double x) { return std::exp(x); }

// erfc(x) e^{x^2}: the product below, the continued fraction of Abramowitz & Stegun 7.1.14 above 2.
double exact_scaled_erfc(double x) {
  if (x < 2) return std::erfc(x) * std::exp(x * x);
  double fraction = x;
  for (int n = 400; n >= 1; --n) fraction = x + 0.5 * n / fraction;
  return std::numbers::inv_sqrtpi / fraction;
}

float one(Function f, float x) {
  std::vector<float> y(1);
  f({x}, y);
  return y[0];
}

TEST(Math, ExpIsBelowOneUlp) {
  for_each_target([] {
    const double error = largest_error(vector_exp, exact_exp, spread(-87.336, 0, 300000));
    EXPECT_LT(error, 1.0);
    EXPECT_GT(error, 0.3) << "an error this small is suspicious";
  });
}

TEST(Math, ExpAtTheEdges) {
  for_each_target([] {
    EXPECT_EQ(one(vector_exp, 0.0f), 1.0f);
    EXPECT_EQ(one(vector_exp, -0.0f), 1.0f);
    EXPECT_EQ(one(vector_exp, -1e-30f), 1.0f);
    EXPECT_EQ(one(vector_exp, -1e-40f), 1.0f);
    EXPECT_FLOAT_EQ(one(vector_exp, -87.3365f), std::exp(-87.3365f));
    for (const float x : {-87.337f, -88.0f, -104.0f, -1e4f, -1e30f, -kInfinity})
      EXPECT_EQ(one(vector_exp, x), 0.0f) << x;
    EXPECT_TRUE(std::isnan(one(vector_exp, kNan)));
  });
}

TEST(Math, ScaledErfcIsBelowFiveUlp) {
  for_each_target([] {
    const double error = largest_error(vector_scaled_erfc, exact_scaled_erfc, spread(0, 10.7, 20000));
    EXPECT_LT(error, 5.0);
    EXPECT_GT(error, 0.3) << "an error this small is suspicious";
    EXPECT_LT(largest_error(vector_scaled_erfc, exact_scaled_erfc, spread(0, 4, 20000)), 4.0);
    EXPECT_TRUE(std::isnan(one(vector_scaled_erfc, kNan)));
  });
}

}  // namespace
}  // namespace tril
#endif  // HWY_ONCE
