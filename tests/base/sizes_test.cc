#include "tril/base/sizes.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::expect_error;
constexpr int64_t kMax = std::numeric_limits<int64_t>::max();

TEST(Sizes, WithinRange) {
  EXPECT_EQ(checked_multiply(0, kMax), 0);
  EXPECT_EQ(checked_multiply(kMax, 1), kMax);
  EXPECT_EQ(checked_multiply(int64_t{1} << 31, int64_t{1} << 31), int64_t{1} << 62);
  EXPECT_EQ(checked_add(kMax - 1, 1), kMax);
  static_assert(checked_multiply(6, 7) == 42 && checked_add(6, 7) == 13);
}

TEST(Sizes, OverflowAndNegativesThrow) {
  expect_error(ErrorKind::kUse, {"size overflow: 4294967296 * 2147483648 is not within"},
               [] { checked_multiply(int64_t{1} << 32, int64_t{1} << 31); });
  expect_error(ErrorKind::kUse, {"-1 * 2"}, [] { checked_multiply(-1, 2); });
  expect_error(ErrorKind::kUse, {"2 * -1"}, [] { checked_multiply(2, -1); });
  expect_error(ErrorKind::kUse, {"9223372036854775807 + 1"}, [] { checked_add(kMax, 1); });
  expect_error(ErrorKind::kUse, {"-1 + 2"}, [] { checked_add(-1, 2); });
  expect_error(ErrorKind::kUse, {"1 + -2"}, [] { checked_add(1, -2); });
  expect_error(ErrorKind::kUse, {"size overflow"}, [] { round_up(kMax, 64); });
}

TEST(Sizes, DivideAndRoundUp) {
  static_assert(divide_up(0, 4) == 0 && divide_up(1, 4) == 1 && divide_up(4, 4) == 1 && divide_up(5, 4) == 2);
  static_assert(round_up(0, 64) == 0 && round_up(1, 64) == 64 && round_up(64, 64) == 64);
  EXPECT_EQ(divide_up(kMax, 2), int64_t{1} << 62);  // (a + b - 1) would overflow
}

}  // namespace
}  // namespace tril
