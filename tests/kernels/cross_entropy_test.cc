#include "tril/kernels/cross_entropy.h"

#include <gtest/gtest.h>

#include "tests/reference/cross_entropy.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

using reference::Complex;
using testing::convert;
using testing::expect_within_naive;
using testing::for_each_target;
using testing::Guarded;
using testing::kInfinity;
using testing::kNan;
using testing::random_floats;

std::vector<int32_t> random_targets(uint64_t seed, size_t rows, size_t vocabulary) {
  const RandomStream random(seed, "targets");
  std::vector<int32_t> targets;
  for (size_t n = 0; n < rows; ++n) targets.push_back(static_cast<int32_t>(random.below(n, vocabulary)));
  return targets;
}

template <class T>
struct Expected {
  std::vector<T> losses, gradients;
  Expected(const std::vector<float>& logits, size_t vocabulary, const std::vector<int32_t>& targets,
           float scale, float z_loss, float smoothing) {
    for (size_t n = 0; n < targets.size(); ++n) {
      const std::vector<T> row(logits.begin() + n * vocabulary, logits.begin() + (n + 1) * vocabulary);
      const auto target = static_cast<size_t>(targets[n]);
      losses.push_back(reference::cross_entropy_loss(row, target));
      const auto g = reference::cross_entropy_gradient(row, target, T(scale), T(z_loss), T(smoothing));
      gradients.insert(gradients.end(), g.begin(), g.end());
    }
  }
};

void expect_right(Executor& executor, size_t rows, size_t vocabulary, double std_dev, float z_loss = 0,
                  float smoothing = 0) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(vocabulary));
  const std::vector<float> x = random_floats(vocabulary, rows * vocabulary, std_dev);
  const std::vector<int32_t> targets = random_targets(vocabulary, rows, vocabulary);
  const float scale = 1.0f / static_cast<float>(rows);
  const Expected<double> exact(x, vocabulary, targets, scale, z_loss, smoothing);
  const Expected<float> naive(x, vocabulary, targets, scale, z_loss, smoothing);
  Guarded logits(x, vocabulary % 3), losses(rows), only(rows), unchanged(x, 1);
  const auto n = static_cast<int64_t>(rows), v = static_cast<int64_t>(vocabulary);
  cross_entropy(executor, n, v, logits.data(), targets.data(), nullptr, scale, z_loss, smoothing,
                losses.data());
  cross_entropy(executor, n, v, unchanged.data(), targets.data(), nullptr, 0, 0, smoothing, only.data());
  expect_within_naive("losses", losses.span(), exact.losses, naive.losses, 2, 3 * std_dev);
  expect_within_naive("gradients", logits.span(), exact.gradients, naive.gradients, 3);
  testing::expect_same_bits("losses alone", only.span(), losses.span());
  testing::expect_same_bits("logits without a gradient", unchanged.span(), x);
  for (const Guarded* g : {&logits, &losses, &only, &unchanged}) g->expect_intact("cross-entropy");
}

TEST(CrossEntropyReference, GradientIsTheComplexStep) {
  const std::vector<double> x = convert<double>(random_floats(1, 11, 2));
  testing::expect_complex_step(
      "dlogits",
      [](const std::vector<Complex>& z) { return 0.25 * reference::cross_entropy_loss(z, size_t{3}); }, x,
      reference::cross_entropy_gradient(x, 3, 0.25));
}

TEST(CrossEntropyReference, GradientOfTheZLossIsTheComplexStep) {
  const std::vector<double> x = convert<double>(random_floats(2, 11, 2));
  testing::expect_complex_step(
      "dlogits",
      [](const std::vector<Complex>& z) {
        const Complex log_z = reference::log_partition(z);
        return 0.25 * (reference::cross_entropy_loss(z, size_t{3}) + 0.1 * log_z * log_z);
      },
      x, reference::cross_entropy_gradient(x, 3, 0.25, 0.1));
}

TEST(CrossEntropyReference, GradientOfSmoothedLabelsIsTheComplexStep) {
  const std::vector<double> x = convert<double>(random_floats(3, 11, 2));
  testing::expect_complex_step(
      "dlogits",
      [](const std::vector<Complex>& z) {
        Complex mean = 0.0;
        for (size_t v = 0; v < 11; ++v) mean += reference::cross_entropy_loss(z, v) / 11.0;
        return 0.25 * (0.8 * reference::cross_entropy_loss(z, size_t{3}) + 0.2 * mean);
      },
      x, reference::cross_entropy_gradient(x, 3, 0.25, 0.0, 0.2));
}

TEST(CrossEntropy, LabelSmoothing) {
  for_each_target([] {
    SerialExecutor serial;
    for (const size_t v : {2u, 17u, 65u, 1000u}) {
      expect_right(serial, 5, v, 1.5, 0, 0.1f);
      expect_right(serial, 5, v, 1.5, 0.02f, 0.3f);
    }
  });
}

// A sure prediction is pushed back, by exactly what its excess over 1 - s + s / V is.
TEST(CrossEntropy, SmoothedLabelsPushASurePredictionBack) {
  for_each_target([] {
    SerialExecutor serial;
    std::vector<float> x = {90, 0, 0, 0};
    const int32_t target = 0;
    float loss = kNan;
    cross_entropy(serial, 1, 4, x.data(), &target, nullptr, 1, 0, 0.2f, &loss);
    EXPECT_FLOAT_EQ(x[0], 0.15f);
    for (size_t v = 1; v < 4; ++v) EXPECT_FLOAT_EQ(x[v], -0.05f);
    EXPECT_LT(loss, 1e-30f);
  });
}

TEST(CrossEntropy, ZLoss) {
  for_each_target([] {
    SerialExecutor serial;
    for (const size_t v : {2u, 17u, 65u, 1000u}) expect_right(serial, 5, v, 1.5, 0.02f);
  });
}

TEST(CrossEntropy, OddSizes) {
  for_each_target([] {
    SerialExecutor serial;
    for (size_t v = 2; v <= 70; ++v) {
      expect_right(serial, 4, v, 1.5);
      if (HasFatalFailure()) return;
    }
  });
}

TEST(CrossEntropy, LargeVocabularyAndManyRows) {
  for_each_target([] {
    ThreadPool pool(2);
    expect_right(pool, 3, 50304, 1);
    expect_right(pool, 700, 65, 1);
  });
}

TEST(CrossEntropy, HugeScores) {
  for_each_target([] {
    SerialExecutor serial;
    expect_right(serial, 9, 131, 100);
    expect_right(serial, 9, 131, 1e4);
  });
}

TEST(CrossEntropy, SameBitsOnAnyNumberOfThreads) {
  testing::expect_same_for_any_threads("cross-entropy", [](Executor& executor) {
    std::vector<float> all = random_floats(1, 301 * 307), losses(301);
    const std::vector<int32_t> targets = random_targets(1, 301, 307);
    cross_entropy(executor, 301, 307, all.data(), targets.data(), nullptr, 1e-2f, 0, 0, losses.data());
    all.insert(all.end(), losses.begin(), losses.end());
    return all;
  });
}

TEST(CrossEntropy, MaskedRowsContributeExactlyZero) {
  for_each_target([] {
    SerialExecutor serial;
    constexpr size_t kRows = 6, kVocabulary = 43;
    const std::vector<float> x = random_floats(1, kRows * kVocabulary);
    std::vector<float> masked = x, plain = x, masked_losses(kRows), losses(kRows);
    std::vector<int32_t> targets = random_targets(1, kRows, kVocabulary);
    cross_entropy(serial, kRows, kVocabulary, plain.data(), targets.data(), nullptr, 0.5f, 0, 0,
                  losses.data());
    const std::vector<uint8_t> mask = {1, 0, 1, 0, 0, 1};
    targets[1] = -100;                   // what data loaders put on padding
    masked[3 * kVocabulary + 2] = kNan;  // not even a NaN leaves a masked row
    cross_entropy(serial, kRows, kVocabulary, masked.data(), targets.data(), mask.data(), 0.5f, 0, 0,
                  masked_losses.data());
    for (size_t n = 0; n < kRows; ++n) {
      EXPECT_EQ(masked_losses[n], mask[n] ? losses[n] : 0.0f);
      for (size_t v = 0; v < kVocabulary; ++v) {
        const size_t i = n * kVocabulary + v;
        ASSERT_EQ(masked[i], mask[n] ? plain[i] : 0.0f) << n << " " << v;
      }
    }
  });
}

TEST(CrossEntropy, TargetOutOfRangeIsNanAndWritesNothingOutside) {
  for_each_target([] {
    SerialExecutor serial;
    for (const int32_t bad : {-1, 17, 1000000, std::numeric_limits<int32_t>::min()}) {
      Guarded logits(random_floats(1, 3 * 17)), losses(3);
      const int32_t targets[] = {5, bad, 16};
      cross_entropy(serial, 3, 17, logits.data(), targets, nullptr, 1.0f, 0, 0, losses.data());
      EXPECT_TRUE(std::isfinite(losses.span()[0]));
      EXPECT_TRUE(std::isnan(losses.span()[1]));
      EXPECT_TRUE(std::isfinite(losses.span()[2]));
      for (size_t v = 0; v < 17; ++v) EXPECT_TRUE(std::isnan(logits.span()[17 + v]));
      logits.expect_intact("logits");
      losses.expect_intact("losses");
    }
  });
}

float loss_of(std::vector<float> logits, int32_t target, std::vector<float>* gradient = nullptr) {
  SerialExecutor serial;
  float loss = kNan;
  cross_entropy(serial, 1, static_cast<int64_t>(logits.size()), logits.data(), &target, nullptr,
                gradient != nullptr ? 1.0f : 0.0f, 0, 0, &loss);
  if (gradient != nullptr) *gradient = logits;
  return loss;
}

TEST(CrossEntropy, SpecialValues) {
  for_each_target([] {
    std::vector<float> g;
    EXPECT_EQ(loss_of({3.5f}, 0, &g), 0.0f);
    EXPECT_EQ(g[0], 0.0f);
    EXPECT_FLOAT_EQ(loss_of(std::vector<float>(65, -7.0f), 9), std::log(65.0f));
    // An impossible token costs nothing unless it is the target.
    EXPECT_FLOAT_EQ(loss_of({1, -kInfinity, 1, -kInfinity}, 0, &g), std::log(2.0f));
    EXPECT_EQ(g[1], 0.0f);
    EXPECT_EQ(loss_of({1, -kInfinity, 1}, 1), kInfinity);
    EXPECT_EQ(loss_of({1e4f, -1e4f, 0}, 0, &g), 0.0f);
    EXPECT_EQ(g, (std::vector<float>{0, 0, 0}));
    EXPECT_EQ(loss_of({1e4f, -1e4f, 0}, 1, &g), 2e4f);
    EXPECT_EQ(g, (std::vector<float>{1, -1, 0}));
    for (size_t i = 0; i < 67; ++i) {
      std::vector<float> x = random_floats(1, 67);
      x[i] = kNan;
      EXPECT_TRUE(std::isnan(loss_of(x, 3))) << i;
      x[i] = kInfinity;
      EXPECT_TRUE(std::isnan(loss_of(x, 3))) << i;
    }
  });
}

// Where the prediction is almost sure, 1 + rest is 1 in float, and loss and gradient would be 0.
TEST(CrossEntropy, SurePredictionKeepsItsSmallLossAndGradient) {
  for_each_target([] {
    std::vector<float> g;
    const double rest = 3 * std::exp(-19.0);
    EXPECT_NEAR(loss_of({0, -19, -19, -19}, 0, &g) / std::log1p(rest), 1, 1e-6);
    EXPECT_NEAR(g[0] / -(rest / (1 + rest)), 1, 1e-6);
    EXPECT_NEAR(g[1] / std::exp(-19.0), 1, 1e-6);
  });
}

TEST(CrossEntropy, DryExecutorTouchesNothing) {
  DryExecutor dry(2);
  cross_entropy(dry, 100, 50304, nullptr, nullptr, nullptr, 1.0f, 0, 0, nullptr);
}

}  // namespace
}  // namespace tril
