#include "tril/kernels/rope.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/expect_error.h"
#include "tests/support/kernel_test.h"

namespace tril {
namespace {

// What transformers 5.24 (modeling_rope_utils.py) computes for heads of 16, in float.
struct Known {
  RopeConfig rope;
  std::array<double, 8> frequencies;
  float factor = 1;
};

const Known kKnown[] = {
    {{}, {1, 0.31622777, 0.1, 0.031622777, 0.01, 0.0031622777, 0.001, 0.00031622777}},
    {{.scaling = RopeScaling::kLinear, .factor = 4},
     {0.25, 0.079056941, 0.025, 0.0079056947, 0.0025, 0.00079056947, 0.00025, 7.9056947e-05}},
    {{.base = 500000, .scaling = RopeScaling::kLlama3, .factor = 8, .original_context = 8192},
     {1, 0.19392276, 0.037606031, 0.0072926651, 0.00052484602, 3.4281024e-05, 6.6478697e-06, 1.2891732e-06}},
    {{.scaling = RopeScaling::kLlama3, .factor = 4, .original_context = 256},
     {1, 0.31622776, 0.1, 0.010185918, 0.0025, 0.00079056947, 0.00025, 7.9056947e-05}},
    {{.scaling = RopeScaling::kYarn, .factor = 4, .original_context = 512},
     {1, 0.25693506, 0.0625, 0.013834965, 0.0025, 0.00079056947, 0.00025, 7.9056947e-05},
     1.138629436f},
    {{.base = 1e6, .scaling = RopeScaling::kYarn, .factor = 16, .original_context = 4096},
     {1, 0.17782794, 0.02174066, 0.0021087797, 6.25e-05, 1.1114246e-05, 1.9764234e-06, 3.5146334e-07},
     1.277258872f}};

TEST(Rope, FrequenciesAreThoseOfTransformers) {
  for (const Known& known : kKnown) {
    double frequencies[8];
    EXPECT_FLOAT_EQ(rope_frequencies(known.rope, 16, frequencies), known.factor);
    for (size_t i = 0; i < 8; ++i)
      EXPECT_NEAR(frequencies[i] / known.frequencies[i], 1, 1e-6)
          << rope_scaling_name(known.rope.scaling) << " " << i;
  }
}

// NTK: the highest frequency stays, the lowest falls by exactly the factor.
TEST(Rope, NtkStretchesTheLongestWavelengthByTheFactor) {
  double plain[8], scaled[8];
  rope_frequencies({}, 16, plain);
  rope_frequencies({.scaling = RopeScaling::kNtk, .factor = 8}, 16, scaled);
  EXPECT_EQ(scaled[0], plain[0]);
  EXPECT_NEAR(plain[7] / scaled[7], 8, 1e-9);
}

TEST(Rope, RotationsOfPositions) {
  SerialExecutor serial;
  const RopeConfig rope{.size = 4};
  std::vector<float> all(10 * 4), some(2 * 4);
  rope_rotation(serial, rope, 6, 10, nullptr, all.data());
  const std::vector<int32_t> positions = {7, 100000};
  rope_rotation(serial, rope, 6, 2, positions.data(), some.data());
  EXPECT_EQ(all[0], 1.0f);
  EXPECT_EQ(all[2], 0.0f);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(some[i], all[7 * 4 + i]);
  EXPECT_FLOAT_EQ(some[4], static_cast<float>(std::cos(100000.0)));
  EXPECT_FLOAT_EQ(some[7], static_cast<float>(std::sin(1000.0)));
  testing::expect_same_for_any_threads("rotation", [&](Executor& executor) {
    std::vector<float> out(3000 * 4);
    rope_rotation(executor, rope, 6, 3000, nullptr, out.data());
    return out;
  });
}

TEST(Rope, RefusesWhatCannotBe) {
  using testing::expect_error;
  const auto refuse = [](const RopeConfig& rope, int64_t head_size, const char* part) {
    expect_error(ErrorKind::kUse, {part}, [&] { check_rope(rope, head_size); });
  };
  refuse({}, 5, "rope: 5 of 5 features are to turn; give an even --rope-size of at most 4");
  refuse({.size = 10}, 8, "rope: 10 of 8");
  refuse({.base = 0.5f}, 8, "base 0.5");
  refuse({.factor = 0}, 8, "factor 0");
  refuse({.scaling = RopeScaling::kYarn, .factor = 2}, 8, "--rope-original-context");
  refuse({.original_context = 64}, 8, "none scaling with an original context of 64");
  refuse({.factor = 4}, 8, "factor 4 with none scaling");
  refuse({.scaling = RopeScaling::kLinear}, 8, "factor 1 with linear scaling");
  refuse({.size = 2, .scaling = RopeScaling::kNtk, .factor = 2}, 8, "ntk");
  refuse({.low_frequency_factor = 4}, 8, "frequency factors 4 and 4");
  expect_error(ErrorKind::kUse, {"'dynamic'"}, [] { rope_scaling_from_name("dynamic"); });
  check_rope({.size = 4}, 5);
}

}  // namespace
}  // namespace tril
