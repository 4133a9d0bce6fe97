#include "tril/data/permutation.h"

#include <map>
#include <numeric>

#include "tests/text/text_testing.h"
#include "tril/base/random.h"

namespace tril {
namespace {

std::vector<int64_t> order_of(int64_t size, uint64_t key) {
  const Permutation permutation(size, key);
  std::vector<int64_t> order;
  for (int64_t i = 0; i < size; ++i) order.push_back(permutation(i));
  return order;
}

TEST(Permutation, ReachesEveryElementOnce) {
  for (const int64_t size : {1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 16, 17, 30, 31, 100, 101, 1000, 4096, 10'007}) {
    for (const uint64_t key : {uint64_t{0}, uint64_t{1}, ~uint64_t{0}}) {
      std::vector<bool> seen(static_cast<size_t>(size));
      for (const int64_t i : order_of(size, key)) {
        ASSERT_GE(i, 0);
        ASSERT_LT(i, size);
        ASSERT_FALSE(seen[static_cast<size_t>(i)]) << size << ": " << i << " twice";
        seen[static_cast<size_t>(i)] = true;
      }
    }
  }
}

TEST(Permutation, OfMoreThanAnyListCouldHold) {
  for (const int64_t size :
       {(int64_t{1} << 20) + 7, int64_t{1} << 40, (int64_t{1} << 62) - 1, int64_t{1} << 62}) {
    const Permutation permutation(size, 5);
    std::map<int64_t, int64_t> from;
    for (int64_t n = 0; n < 20'000; ++n) {
      const int64_t i = n < 10'000 ? n : size - 1 - (n - 10'000);
      const int64_t to = permutation(i);
      ASSERT_GE(to, 0);
      ASSERT_LT(to, size);
      ASSERT_TRUE(from.emplace(to, i).second) << size << ": " << i << " and " << from[to] << " go to " << to;
    }
  }
}

// Over many keys, each order of few elements is about as likely as another.
TEST(Permutation, EveryOrderIsAsLikely) {
  constexpr int kEach = 100;
  for (const auto& [size, orders] : {std::pair(2, 2), {3, 6}, {4, 24}, {5, 120}, {6, 720}}) {
    std::map<std::vector<int64_t>, int> seen;
    for (int key = 0; key < kEach * orders; ++key)
      ++seen[order_of(size, RandomStream(7, "keys").bits64(static_cast<uint64_t>(key)))];
    EXPECT_EQ(std::ssize(seen), orders);
    double chi_square = 0;
    for (const auto& [order, count] : seen) chi_square += (count - kEach) * (count - kEach) / double{kEach};
    EXPECT_LT(chi_square, orders + 6 * std::sqrt(2.0 * orders)) << size;
  }
}

// Neighbours do not stay neighbours, and nothing stays in its place more often than by chance.
TEST(Permutation, LeavesNoTraceOfTheOldOrder) {
  constexpr int64_t kSize = 20'000;
  const std::vector<int64_t> order = order_of(kSize, 11);
  int64_t fixed = 0, ascending = 0;
  double near = 0;
  for (int64_t i = 0; i < kSize; ++i) {
    fixed += order[static_cast<size_t>(i)] == i;
    if (i == 0) continue;
    const int64_t step = order[static_cast<size_t>(i)] - order[static_cast<size_t>(i - 1)];
    ascending += step > 0;
    near += static_cast<double>(std::abs(step)) / kSize;
  }
  EXPECT_LE(fixed, 8);                             // 1 expected
  EXPECT_NEAR(ascending, kSize / 2, 6 * 41);       // standard deviation sqrt(n / 12)
  EXPECT_NEAR(near / kSize, 1.0 / 3, 6 * 0.0024);  // mean distance of two places
}

TEST(Permutation, DependsOnTheKey) {
  EXPECT_EQ(order_of(100, 1), order_of(100, 1));
  EXPECT_NE(order_of(100, 1), order_of(100, 2));
  for (const int64_t size : {int64_t{0}, int64_t{-1}, (int64_t{1} << 62) + 1})
    testing::message_of(ErrorKind::kUse, [&] { Permutation(size, 1); });
  testing::message_of(ErrorKind::kUse, [] { Permutation(3, 1)(3); });
}

}  // namespace
}  // namespace tril
