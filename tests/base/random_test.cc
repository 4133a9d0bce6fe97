#include "tril/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace tril {
namespace {

using Block = std::array<uint32_t, 4>;

// The known answers that come with Random123, "philox4x32 10".
TEST(Random, PhiloxKnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

// These numbers decide initial weights, dropout and the order of data: a change breaks every resumed run.
// Computed by a second implementation of the definitions in the header.
TEST(Random, DrawsAreFixedForever) {
  EXPECT_EQ(stream_key(42, "weights"), 0x5ab31477a40c62e0u);
  EXPECT_EQ(stream_key(0, ""), 0x5b21f68ffa77f14cu);
  EXPECT_EQ(stream_key(43, "weights"), 0xa581cb6332389b68u);
  const RandomStream r(42, "weights", 7);
  EXPECT_EQ(r.key(), 0x5ab31477a40c62e0u);
  EXPECT_EQ(r.substream(), 7u);
  const uint64_t far = (uint64_t{1} << 40) + 5;
  const uint32_t words[] = {0xbac594d4, 0x66db2e5d, 0x316b0ff7, 0xa7c04085, 0x4f4b85d1};
  for (uint64_t i = 0; i < 5; ++i) EXPECT_EQ(r.bits(i), words[i]) << i;
  EXPECT_EQ(r.bits(far), 0xa57c1477u);
  EXPECT_EQ(r.bits64(0), 0x66db2e5dbac594d4u);
  EXPECT_EQ(r.bits64(1), 0xa7c04085316b0ff7u);
  EXPECT_EQ(r.bits64(2), 0x4262e5cb4f4b85d1u);
  EXPECT_EQ(r.bits64(far), 0x51981f0e1416ef56u);
  EXPECT_EQ(RandomStream(42, "weights", uint64_t{1} << 33).bits(0), 0xf8ed51b1u);
  EXPECT_EQ(r.uniform(0), 0.7295773029327393f);
  EXPECT_EQ(r.uniform(1), 0.40178191661834717f);
  const double normals[] = {-0.5683257281650829, -0.1304755519178377, 0.9986006545180622,
                            -0.26007061125608943};
  for (uint64_t i = 0; i < 4; ++i) EXPECT_NEAR(r.normal(i), normals[i], 1e-15) << i;  // libm may differ
  const uint64_t below[] = {401, 655, 259, 276, 866, 167, 782, 726};
  for (uint64_t i = 0; i < 8; ++i) EXPECT_EQ(r.below(i, 1000), below[i]) << i;
}

TEST(Random, SeedNameAndSubstreamSeparate) {
  std::set<uint64_t> first;
  int streams = 0;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    for (const char* name : {"", "a", "b", "ab", "ba", "dropout"}) {
      for (uint64_t substream = 0; substream < 50; ++substream, ++streams)
        first.insert(RandomStream(seed, name, substream).bits64(0));
    }
  }
  EXPECT_EQ(first.size(), static_cast<size_t>(streams));
}

// Pearson correlation of the uniform draws of two streams; its standard deviation is 1/sqrt(n).
double correlation(const RandomStream& a, const RandomStream& b, uint64_t n, uint64_t lag = 0) {
  double sum = 0;
  for (uint64_t i = 0; i < n; ++i) sum += (a.uniform64(i) - 0.5) * (b.uniform64(i + lag) - 0.5);
  return 12 * sum / static_cast<double>(n);
}

TEST(Random, StreamsAreIndependent) {
  constexpr uint64_t kN = 40000;
  const double bound = 4.5 / std::sqrt(static_cast<double>(kN));
  const RandomStream a(1, "x", 0);
  EXPECT_GT(correlation(a, a, kN), 0.9);  // the measure itself works
  EXPECT_LT(std::abs(correlation(a, RandomStream(2, "x", 0), kN)), bound);
  EXPECT_LT(std::abs(correlation(a, RandomStream(1, "y", 0), kN)), bound);
  EXPECT_LT(std::abs(correlation(a, RandomStream(1, "x", 1), kN)), bound);
  EXPECT_LT(std::abs(correlation(a, a, kN, 1)), bound);
  EXPECT_LT(std::abs(correlation(a, a, kN, 4)), bound);
}

TEST(Random, UniformStaysInRange) {
  const RandomStream r(3, "uniform");
  double sum = 0;
  std::vector<int> sixteenths(16);
  constexpr int kN = 64000;
  for (uint64_t i = 0; i < kN; ++i) {
    const float u = r.uniform(i);
    ASSERT_TRUE(u >= 0.0f && u < 1.0f) << u;
    const double w = r.uniform64(i);
    ASSERT_TRUE(w >= 0.0 && w < 1.0) << w;
    sum += u;
    ++sixteenths[static_cast<size_t>(u * 16)];
  }
  EXPECT_NEAR(sum / kN, 0.5, 4.5 * std::sqrt(1.0 / 12 / kN));
  double chi2 = 0;
  for (const int n : sixteenths) chi2 += std::pow(n - kN / 16.0, 2) / (kN / 16.0);
  EXPECT_LT(chi2, 50);  // 15 degrees of freedom: above 50 once in 100,000
}

TEST(Random, NormalHasTheMomentsOfTheNormalDistribution) {
  const RandomStream r(4, "normal");
  constexpr int kN = 200000;
  double moments[5] = {};
  int beyond_two = 0;
  for (uint64_t i = 0; i < kN; ++i) {
    const double x = r.normal(i);
    ASSERT_TRUE(std::isfinite(x));
    double power = 1;
    for (double& m : moments) m += power / kN, power *= x;
    beyond_two += std::abs(x) > 2;
  }
  // Variances of x, x^2, x^3, x^4: 1, 2, 15, 96.
  const double s = 4.5 / std::sqrt(static_cast<double>(kN));
  EXPECT_NEAR(moments[1], 0, s);
  EXPECT_NEAR(moments[2], 1, s * std::sqrt(2.0));
  EXPECT_NEAR(moments[3], 0, s * std::sqrt(15.0));
  EXPECT_NEAR(moments[4], 3, s * std::sqrt(96.0));
  EXPECT_NEAR(static_cast<double>(beyond_two) / kN, 0.0455003, s * 0.21);
}

TEST(Random, BelowCoversItsRangeEvenly) {
  const RandomStream r(5, "below");
  std::vector<int> counts(7);
  constexpr int kN = 70000;
  for (uint64_t i = 0; i < kN; ++i) {
    const uint64_t k = r.below(i, 7);
    ASSERT_LT(k, 7u);
    ++counts[static_cast<size_t>(k)];
  }
  double chi2 = 0;
  for (const int n : counts) chi2 += std::pow(n - kN / 7.0, 2) / (kN / 7.0);
  EXPECT_LT(chi2, 33);  // 6 degrees of freedom: above 33 once in 100,000
  const uint64_t huge = (uint64_t{1} << 63) + 1;
  bool upper_half = false;
  for (uint64_t i = 0; i < 100; ++i) {
    EXPECT_EQ(r.below(i, 1), 0u);
    EXPECT_LT(r.below(i, huge), huge);
    upper_half |= r.below(i, huge) > huge / 2;
  }
  EXPECT_TRUE(upper_half);
}

}  // namespace
}  // namespace tril
