#include "tril/data/sampler.h"

#include <map>
#include <numeric>

#include "tests/text/text_testing.h"

namespace tril {
namespace {

using testing::message_of;

std::vector<int32_t> counting(size_t size) {
  std::vector<int32_t> tokens(size);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

std::vector<int32_t> starts_of(const Batch& batch) {
  std::vector<int32_t> starts;
  for (int64_t row = 0; row < batch.batch; ++row) starts.push_back(batch.tokens[row * batch.time]);
  return starts;
}

TEST(WindowSampler, WindowsAndTheTokenAfterEach) {
  const auto tokens = counting(100);
  WindowSampler sampler(tokens, 4, 7, 1);
  for (int64_t step = 0; step < 50; ++step) {
    const Batch& batch = sampler.sample(step);
    ASSERT_EQ(batch.rows(), 28);
    ASSERT_EQ(batch.counted_targets, 28);
    ASSERT_EQ(batch.loss_mask, nullptr);
    for (int64_t row = 0; row < 4; ++row) {
      const int32_t start = batch.tokens[row * 7];
      ASSERT_GE(start, 0);
      ASSERT_LE(start + 7, 99);
      for (int64_t t = 0; t < 7; ++t) {
        ASSERT_EQ(batch.tokens[row * 7 + t], start + t);
        ASSERT_EQ(batch.targets[row * 7 + t], start + t + 1);
      }
    }
  }
}

// Token 99 stands before a document: ids rise at it, positions start again.
TEST(DocumentMask, CutsWindowsAtEndOfText) {
  const std::vector<int32_t> tokens = {1, 2, 99, 3, 99, 99, 4, 5, 6, 7, 8};
  SequentialWindows windows(tokens, 2, 5, 99);
  const Batch& batch = windows.get(0);
  const std::vector<int32_t> documents(batch.documents, batch.documents + 10),
      positions(batch.positions, batch.positions + 10);
  EXPECT_EQ(documents, (std::vector<int32_t>{0, 0, 1, 1, 2, 0, 0, 0, 0, 0}));
  EXPECT_EQ(positions, (std::vector<int32_t>{0, 1, 0, 1, 0, 0, 1, 2, 3, 4}));
  WindowSampler sampler(tokens, 3, 4, 1, 99);
  const Batch& random = sampler.sample(5);
  for (int64_t n = 0; n < 12; ++n) {
    const bool starts = n % 4 == 0 || random.tokens[n] == 99;
    EXPECT_EQ(random.positions[n], starts ? 0 : random.positions[n - 1] + 1);
  }
  EXPECT_EQ(WindowSampler(tokens, 3, 4, 1).sample(5).documents, nullptr);
}

TEST(WindowSampler, EveryStartIsAsLikely) {
  const auto tokens = counting(12);  // starts 0 .. 7 with T = 4
  WindowSampler sampler(tokens, 8, 4, 3);
  std::map<int32_t, int> seen;
  for (int64_t step = 0; step < 1000; ++step) {
    for (const int32_t start : starts_of(sampler.sample(step))) ++seen[start];
  }
  EXPECT_EQ(seen.size(), 8u);
  for (const auto& [start, count] : seen) EXPECT_NEAR(count, 1000, 150) << start;  // 5 standard deviations
}

TEST(WindowSampler, AStepIsAFunctionOfSeedStepAndRow) {
  const auto tokens = counting(10'000);
  WindowSampler a(tokens, 4, 8, 1), b(tokens, 4, 8, 1), wider(tokens, 6, 8, 1), other(tokens, 4, 8, 2);
  for (int64_t step = 0; step < 20; ++step) a.sample(step);
  const auto expected = starts_of(a.sample(20));
  EXPECT_EQ(starts_of(b.sample(20)), expected);
  auto first = starts_of(wider.sample(20));
  first.resize(4);
  EXPECT_EQ(first, expected);
  EXPECT_NE(starts_of(other.sample(20)), expected);
  EXPECT_NE(starts_of(a.sample(21)), expected);
  EXPECT_NE(starts_of(a.sample(20 + (int64_t{1} << 32))), expected);
}

TEST(WindowSampler, TheSmallestText) {
  const auto tokens = counting(17);
  WindowSampler sampler(tokens, 3, 16, 1);
  EXPECT_EQ(starts_of(sampler.sample(0)), (std::vector<int32_t>{0, 0, 0}));
  for (const size_t size : {0, 1, 16}) {
    const auto few = counting(size);
    testing::expect_contains(message_of(ErrorKind::kUse, [&] { WindowSampler(few, 3, 16, 1); }),
                             std::to_string(size) + " tokens");
  }
  message_of(ErrorKind::kUse, [&] { WindowSampler(tokens, 0, 16, 1); });
  message_of(ErrorKind::kUse, [&] { WindowSampler(tokens, 1, 0, 1); });
  message_of(ErrorKind::kUse, [&] { sampler.sample(-1); });
}

TEST(SequentialWindows, EveryTokenIsATargetOnce) {
  for (size_t size = 0; size < 80; ++size) {
    const auto tokens = counting(size);
    SequentialWindows windows(tokens, 3, 5);
    std::vector<int> targets(size);
    int64_t counted = 0;
    for (int64_t i = 0; i < windows.batches(); ++i) {
      const Batch& batch = windows.get(i);
      ASSERT_EQ(batch.rows(), 15);
      int64_t here = 0;
      for (int64_t n = 0; n < 15; ++n) {
        if (batch.loss_mask != nullptr && batch.loss_mask[n] == 0) {
          EXPECT_EQ(batch.tokens[n], 0);
          continue;
        }
        ASSERT_EQ(batch.targets[n], batch.tokens[n] + 1);
        ++targets[static_cast<size_t>(batch.targets[n])];
        ++here;
      }
      EXPECT_EQ(here, batch.counted_targets);
      EXPECT_GT(here, 0);
      counted += here;
    }
    EXPECT_EQ(counted, size == 0 ? 0 : std::ssize(tokens) - 1) << size;
    for (size_t token = 1; token < size; ++token) EXPECT_EQ(targets[token], 1) << size << " " << token;
  }
}

TEST(SequentialWindows, FewerExamplesThanTheBatch) {
  const auto tokens = counting(33);  // two windows of 16
  SequentialWindows windows(tokens, 4, 16);
  EXPECT_EQ(windows.batches(), 1);
  EXPECT_EQ(windows.get(0).counted_targets, 32);
  EXPECT_NE(windows.get(0).loss_mask, nullptr);
  message_of(ErrorKind::kUse, [&] { windows.get(1); });
}

}  // namespace
}  // namespace tril
