#include "tril/data/mixture.h"

#include <numeric>

#include "tests/text/text_testing.h"
#include "tril/data/sampler.h"

namespace tril {
namespace {

using testing::expect_contains;
using testing::message_of;

TEST(Mixture, DealsRowsInTheirProportions) {
  const std::vector<std::vector<int64_t>> all = {{1},
                                                 {1, 1},
                                                 {7, 3},
                                                 {3, 7},
                                                 {1, 1000},
                                                 {5, 3, 2},
                                                 {1, 1, 1, 1, 1},
                                                 {600'000, 299'999, 100'001},
                                                 {1, 2, 3, 4, 5, 6}};
  for (const auto& weights : all) {
    const Mixture mixture(weights);
    const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<int64_t> counts(weights.size());
    for (int64_t n = 0; n < 5000; ++n) {
      const Mixture::Row row = mixture.at(n);
      ASSERT_LT(row.source, weights.size());
      ASSERT_EQ(row.row, counts[row.source]++) << n;  // closed form == counted
      for (size_t s = 0; s < weights.size(); ++s) {
        const double expected = static_cast<double>(n + 1) * static_cast<double>(weights[s]) / total;
        ASSERT_NEAR(static_cast<double>(counts[s]), expected, 1.5) << n << " source " << s;
      }
    }
  }
}

TEST(Mixture, APeriodHasExactlyTheWeights) {
  const Mixture mixture({7, 2, 1});
  for (int64_t period = 0; period < 5; ++period) {
    std::vector<int64_t> counts(3);
    for (int64_t n = 0; n < 10; ++n) ++counts[mixture.at(10 * period + n).source];
    EXPECT_EQ(counts, (std::vector<int64_t>{7, 2, 1}));
  }
}

TEST(Mixture, HoldsFarOut) {
  const Mixture mixture({Mixture::kLargestWeight, 1, Mixture::kLargestWeight - 1});
  for (const int64_t far : {int64_t{1} << 40, int64_t{1} << 62, INT64_MAX - 100}) {
    std::vector<int64_t> next(3, -1);
    for (int64_t n = far; n < far + 100; ++n) {
      const Mixture::Row row = mixture.at(n);
      if (next[row.source] >= 0) {
        ASSERT_EQ(row.row, next[row.source]);
      }
      next[row.source] = row.row + 1;
    }
    EXPECT_NEAR(static_cast<double>(next[0]), static_cast<double>(far) / 2,
                1e-9 * static_cast<double>(far) + 100);
  }
}

TEST(Mixture, ReadsWeights) {
  using Weights = std::vector<int64_t>;
  EXPECT_EQ(parse_mixture("0.7,0.3"), (Weights{7, 3}));
  EXPECT_EQ(parse_mixture("70,30"), (Weights{7, 3}));
  EXPECT_EQ(parse_mixture("3"), (Weights{1}));
  EXPECT_EQ(parse_mixture("1,0.000001,1000000"), (Weights{1'000'000, 1, 1'000'000'000'000}));
  for (const char* wrong :
       {"", ",", "1,", ",1", "1,,2", "1;2", "0,1", "-1,2", "nan,1", "inf,1", "1 2", "1e9,1", "1e-7"})
    expect_contains(message_of(ErrorKind::kUse, [&] { parse_mixture(wrong); }),
                    "--mix '" + std::string(wrong) + "'");
  message_of(ErrorKind::kUse, [] { Mixture({}); });
  message_of(ErrorKind::kUse, [] { Mixture({1, 0}); });
  message_of(ErrorKind::kUse, [] { Mixture({Mixture::kLargestWeight + 1}); });
}

}  // namespace
}  // namespace tril
