// The comparisons of the test ladder. They refuse to pass by accident: overlapping buffers, constant or
// non-finite expectations, and bounds above a tenth of the signal fail the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tril/base/random.h"

namespace tril::testing {

inline std::vector<float> random_floats(uint64_t seed, size_t count, double std_dev = 1.0) {
  const RandomStream random(seed, "test");
  std::vector<float> out(count);
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<float>(std_dev * random.normal(i));
  return out;
}

template <class To, class From>
std::vector<To> convert(const std::vector<From>& in) {
  return std::vector<To>(in.begin(), in.end());
}

// |actual - exact| <= factor * (largest |naive - exact|) + floor_ulps * epsilon * max|exact|, element by
// element. exact: a reference in double; naive: the plain float version of the same formula. `magnitude`: the
// size of the operands, where results are small by cancellation; 0 takes max|exact|.
inline void expect_within_naive(const std::string& what, std::span<const float> actual,
                                std::span<const double> exact, std::span<const float> naive, double factor,
                                double magnitude = 0, double floor_ulps = 8) {
  ASSERT_EQ(actual.size(), exact.size()) << what;
  ASSERT_EQ(naive.size(), exact.size()) << what;
  ASSERT_FALSE(actual.data() == naive.data() && !actual.empty()) << what << ": compared with itself";
  double signal = 0, low = std::numeric_limits<double>::infinity(), high = -low, naive_error = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    ASSERT_TRUE(std::isfinite(exact[i])) << what << ": expectation " << i << " is " << exact[i];
    signal = std::max(signal, std::abs(exact[i]));
    low = std::min(low, exact[i]);
    high = std::max(high, exact[i]);
    naive_error = std::max(naive_error, std::abs(naive[i] - exact[i]));
  }
  ASSERT_TRUE(exact.size() < 2 || low != high) << what << ": the expectation is constant";
  const double bound =
      factor * naive_error + floor_ulps * std::numeric_limits<float>::epsilon() * std::max(magnitude, signal);
  ASSERT_LT(bound, 0.1 * signal) << what << ": the bound is above a tenth of the signal";
  for (size_t i = 0; i < exact.size(); ++i) {
    ASSERT_TRUE(std::abs(actual[i] - exact[i]) <= bound)
        << what << " [" << i << "] is " << actual[i] << ", exactly " << exact[i] << ", bound " << bound
        << ", naive float error " << naive_error;
  }
}

// Bit for bit, and not trivially: the data must not be constant.
inline void expect_same_bits(const std::string& what, std::span<const float> a, std::span<const float> b) {
  ASSERT_EQ(a.size(), b.size()) << what;
  ASSERT_NE(a.data(), b.data()) << what << ": compared with itself";
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_TRUE(std::bit_cast<uint32_t>(a[i]) == std::bit_cast<uint32_t>(b[i]))
        << what << " [" << i << "]: " << a[i] << " and " << b[i];
  }
  ASSERT_TRUE(a.size() < 2 || std::any_of(a.begin(), a.end(), [&](float x) { return x != a[0]; }))
      << what << ": constant data proves nothing";
}

// The largest |actual - expected|. A NaN gives a NaN, which no comparison lets pass.
template <class Actual, class Expected>
double largest_difference(const Actual& actual, const Expected& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(actual.size(), expected.size()); ++i) {
    const double difference = std::abs(double{actual[i]} - double{expected[i]});
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

// |actual - expected| <= share * max|expected|, element by element.
inline void expect_near(const std::string& what, std::span<const float> actual,
                        std::span<const float> expected, double share) {
  ASSERT_NE(actual.data(), expected.data()) << what << ": compared with itself";
  ASSERT_LT(share, 0.1) << what << ": the bound is above a tenth of the signal";
  double signal = 0;
  for (const float x : expected) signal = std::max(signal, std::abs(double{x}));
  ASSERT_GT(signal, 0) << what << ": the expectation is zero";
  EXPECT_LE(largest_difference(actual, expected), share * signal) << what;
}

inline void expect_all_zero(const std::string& what, std::span<const float> x) {
  for (size_t i = 0; i < x.size(); ++i) ASSERT_TRUE(x[i] == 0.0f) << what << " [" << i << "] is " << x[i];
}

// The analytic gradient of a scalar function against its complex step, Im f(x + ih e_i) / h with h = 1e-30:
// exact to rounding. f takes and returns std::complex<double>.
inline void expect_complex_step(
    const std::string& what,
    const std::function<std::complex<double>(const std::vector<std::complex<double>>&)>& f,
    const std::vector<double>& x, std::span<const double> gradient, double tolerance = 1e-12) {
  ASSERT_EQ(x.size(), gradient.size()) << what;
  constexpr double kStep = 1e-30;
  std::vector<std::complex<double>> z(x.begin(), x.end());
  double scale = 0;
  std::vector<double> expected(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    z[i] = {x[i], kStep};
    expected[i] = f(z).imag() / kStep;
    z[i] = x[i];
    scale = std::max(scale, std::abs(expected[i]));
  }
  ASSERT_GT(scale, 0) << what << ": the gradient is zero everywhere";
  for (size_t i = 0; i < x.size(); ++i) {
    ASSERT_NEAR(gradient[i], expected[i], tolerance * scale) << what << " gradient [" << i << "]";
  }
}

}  // namespace tril::testing
