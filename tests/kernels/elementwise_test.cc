#include "tril/kernels/elementwise.h"

#include <gtest/gtest.h>

#include "tests/reference/elementwise.h"
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

TEST(Add, OddLengths) {
  for_each_target([] {
    for (size_t count = 1; count <= 70; ++count) {
      const std::vector<float> x = random_floats(count, count), y = random_floats(count + 1, count);
      std::vector<float> expected = y;
      for (size_t i = 0; i < count; ++i) expected[i] += x[i];
      Guarded in(x, count % 3), out(y, count % 7);
      add_row(static_cast<int64_t>(count), in.data(), out.data());
      expect_same_bits("sum", out.span(), expected);
      out.expect_intact("y");
      if (HasFatalFailure()) return;
    }
    std::vector<float> twice = random_floats(1, 37);  // a row added to itself
    std::vector<float> expected = twice;
    for (float& v : expected) v *= 2;
    add_row(37, twice.data(), twice.data());
    expect_same_bits("twice", twice, expected);
  });
}

void expect_bias_right(Executor& executor, size_t rows, size_t channels) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(channels));
  const std::vector<float> bias = random_floats(1, channels), y = random_floats(2, rows * channels);
  Guarded bias_in(bias, 1), out(y, 2), sums(bias, 3);
  const auto n = static_cast<int64_t>(rows), c = static_cast<int64_t>(channels);
  Guarded workspace(static_cast<size_t>(bias_backward_workspace(n, c)));
  bias_backward(executor, n, c, out.data(), sums.data(), workspace.data());
  bias_forward(executor, n, c, bias_in.data(), out.data());
  std::vector<float> forward = y, naive = bias;
  std::vector<double> exact = convert<double>(bias);
  reference::bias_forward(bias, forward);
  reference::bias_backward(y, naive);
  reference::bias_backward(convert<double>(y), exact);
  expect_same_bits("y", out.span(), forward);
  expect_within_naive("dbias", sums.span(), exact, naive, 3);
  for (const Guarded* g : {&bias_in, &out, &sums, &workspace}) g->expect_intact("bias");
}

TEST(BiasReference, GradientIsTheComplexStep) {
  using Complex = std::complex<double>;
  const auto dy = convert<double>(random_floats(1, 15)), bias = convert<double>(random_floats(2, 5));
  std::vector<double> dbias(5);
  reference::bias_backward(dy, dbias);
  testing::expect_complex_step(
      "dbias",
      [&](const std::vector<Complex>& z) {
        std::vector<Complex> y(15);
        reference::bias_forward(z, y);
        Complex sum = 0;
        for (size_t i = 0; i < 15; ++i) sum += y[i] * dy[i];
        return sum;
      },
      bias, dbias);
}

TEST(Bias, OddAndLargerSizes) {
  for_each_target([] {
    SerialExecutor serial;
    for (size_t c = 1; c <= 70; ++c) {
      expect_bias_right(serial, 3 + c % 7, c);
      if (HasFatalFailure()) return;
    }
    for (const auto& [rows, channels] : {std::pair<size_t, size_t>{5000, 3}, {257, 777}, {1, 1000}})
      expect_bias_right(serial, rows, channels);
  });
}

TEST(Elementwise, SameBitsOnAnyNumberOfThreads) {
  testing::expect_same_for_any_threads("bias, add", [](Executor& executor) {
    constexpr size_t kRows = 301, kChannels = 333;
    std::vector<float> y = random_floats(1, kRows * kChannels), bias = random_floats(2, kChannels);
    std::vector<float> workspace(static_cast<size_t>(bias_backward_workspace(kRows, kChannels)));
    const std::vector<float> x = random_floats(3, kRows * kChannels);
    bias_forward(executor, kRows, kChannels, bias.data(), y.data());
    add(executor, kRows * kChannels, x.data(), y.data());
    bias_backward(executor, kRows, kChannels, y.data(), bias.data(), workspace.data());
    y.insert(y.end(), bias.begin(), bias.end());
    return y;
  });
}

int64_t first_bad(Executor& executor, std::span<const float> x) {
  int64_t bad = -2;
  first_non_finite(executor, static_cast<int64_t>(x.size()), x.data(), &bad);
  return bad;
}

TEST(FirstNonFinite, EveryPosition) {
  for_each_target([] {
    SerialExecutor serial;
    EXPECT_EQ(first_bad(serial, {}), -1);
    for (size_t count = 1; count <= 70; ++count) {
      Guarded x(random_floats(count, count), count % 4);
      EXPECT_EQ(first_bad(serial, x.span()), -1);
      for (size_t i = 0; i < count; ++i) {
        const float poisons[] = {kNan, kInfinity, -kInfinity};
        const float kept = std::exchange(x.data()[i], poisons[i % 3]);
        EXPECT_EQ(first_bad(serial, x.span()), static_cast<int64_t>(i)) << count;
        x.data()[i] = kept;
      }
    }
    constexpr float kLargest = std::numeric_limits<float>::max();
    EXPECT_EQ(first_bad(serial, std::vector<float>{0.0f, -0.0f, 1e-40f, kLargest, -kLargest}), -1);
  });
}

TEST(FirstNonFinite, TheFirstOfSeveralOnAnyNumberOfThreads) {
  std::vector<float> x = random_floats(1, 200000);
  for (const size_t i : {199999, 150000, 16384, 16383}) {
    x[i] = kNan;
    for (int threads = 1; threads <= 4; ++threads) {
      ThreadPool pool(threads);
      EXPECT_EQ(first_bad(pool, x), static_cast<int64_t>(i));
    }
  }
}

TEST(Elementwise, DryExecutorTouchesNothing) {
  DryExecutor dry(2);
  add(dry, 100000, nullptr, nullptr);
  bias_forward(dry, 1000, 100, nullptr, nullptr);
  bias_backward(dry, 1000, 100, nullptr, nullptr, nullptr);
  first_non_finite(dry, 100000, nullptr, nullptr);
}

}  // namespace
}  // namespace tril
