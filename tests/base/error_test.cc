#include "tril/base/error.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::expect_error;

TEST(Error, KindsAreTheExitCodes) {
  EXPECT_EQ(static_cast<int>(ErrorKind::kUse), 1);
  EXPECT_EQ(static_cast<int>(ErrorKind::kData), 2);
  EXPECT_EQ(static_cast<int>(ErrorKind::kNumerics), 3);
}

TEST(Error, CarriesKindAndMessage) {
  const Error error(ErrorKind::kNumerics, "loss is nan");
  EXPECT_EQ(error.kind(), ErrorKind::kNumerics);
  EXPECT_STREQ(error.what(), "loss is nan");
  expect_error(ErrorKind::kNumerics, {"step 7: loss is inf"},
               [] { fail(ErrorKind::kNumerics, "step {}: loss is {}", 7, "inf"); });
}

TEST(Error, ChecksThrowOnlyWhenFalse) {
  check_use(true, "{}", 1);
  check_data(true, "{}", 1);
  expect_error(ErrorKind::kUse, {"3 > 2"}, [] { check_use(false, "{} > {}", 3, 2); });
  expect_error(ErrorKind::kData, {"a: 5"}, [] { check_data(false, "{}: {}", "a", 5); });
}

TEST(Error, IsAStandardException) { EXPECT_THROW(fail(ErrorKind::kUse, "x"), std::runtime_error); }

}  // namespace
}  // namespace tril
