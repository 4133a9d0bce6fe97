#include "tril/data/sampler.h"

#include <algorithm>
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

WindowOptions epochs(int64_t batch, int64_t time, uint64_t seed = 1) {
  return {.batch = batch, .time = time, .seed = seed, .sampling = Sampling::kEpochs};
}

std::vector<int32_t> starts_from(WindowSampler& sampler, int64_t row, int64_t batches, int64_t batch) {
  std::vector<int32_t> out;
  for (int64_t i = 0; i < batches; ++i) {
    const auto more = starts_of(sampler.sample_at({row + i * batch}));
    out.insert(out.end(), more.begin(), more.end());
  }
  return out;
}

TEST(EpochWindows, EveryWindowOnceInEachEpoch) {
  for (const auto& [tokens, time] :
       {std::pair(5, 4), {8, 4}, {9, 4}, {13, 4}, {100, 7}, {1001, 10}, {50, 1}}) {
    const EpochWindows windows(tokens, time, 3);
    std::vector<int64_t> before;
    for (int64_t epoch = 0; epoch < 20; ++epoch) {
      std::vector<int64_t> starts;
      for (int64_t i = 0; i < windows.count(); ++i)
        starts.push_back(windows.start(epoch * windows.count() + i));
      if (windows.count() > 20) {
        EXPECT_NE(starts, before);  // another order, and most often another offset
      }
      before = starts;
      std::sort(starts.begin(), starts.end());
      ASSERT_GE(starts.front(), 0);
      ASSERT_LE(starts.back() + time, tokens - 1);
      for (size_t i = 1; i < starts.size(); ++i) ASSERT_EQ(starts[i], starts[i - 1] + time);
      ASSERT_LT(tokens - 1 - windows.count() * time, 2 * time);  // targets that an epoch leaves out
    }
  }
}

TEST(EpochWindows, EveryTokenIsATargetInSomeEpoch) {
  const EpochWindows windows(60, 8, 1);
  std::vector<int> targets(60);
  for (int64_t row = 0; row < 200 * windows.count(); ++row)
    for (int64_t t = 1; t <= 8; ++t) ++targets[static_cast<size_t>(windows.start(row) + t)];
  for (size_t token = 1; token < targets.size(); ++token) EXPECT_GT(targets[token], 0) << token;
}

TEST(WindowSampler, EpochsReadRowAfterRowWhateverTheBatch) {
  const auto tokens = counting(1000);
  WindowSampler eight({{tokens, 1}}, epochs(8, 10)), four({{tokens, 1}}, epochs(4, 10)),
      three({{tokens, 1}}, epochs(3, 10)), other({{tokens, 1}}, epochs(8, 10, 2));
  const auto expected = starts_from(eight, 0, 60, 8);  // five epochs of 98 windows
  EXPECT_EQ(starts_from(four, 0, 120, 4), expected);
  EXPECT_EQ(starts_from(three, 0, 160, 3), expected);
  EXPECT_NE(starts_from(other, 0, 60, 8), expected);
  // Steps of 8, then after 16 rows of 3 and 4.
  const std::vector<int32_t> rest(expected.begin() + 16, expected.begin() + 28);
  EXPECT_EQ(starts_from(three, 16, 4, 3), rest);
  EXPECT_EQ(starts_from(four, 16, 3, 4), rest);
  WindowSampler random({{tokens, 1}}, {.batch = 8, .time = 10});
  EXPECT_EQ(starts_of(random.sample_at({16})), starts_of(WindowSampler(tokens, 8, 10, 1).sample(2)));
  message_of(ErrorKind::kUse, [&] { random.sample_at({12}); });
  for (WindowSampler* sampler : {&random, &eight}) {
    message_of(ErrorKind::kUse, [&] { sampler->sample_at({-8}); });
    message_of(ErrorKind::kUse, [&] { sampler->sample_at({INT64_MAX - 7}); });
    message_of(ErrorKind::kUse, [&] { sampler->sample(INT64_MAX / 8 + 1); });
  }
}

// Each source has its own epochs, and is read as often as its weight says.
TEST(WindowSampler, MixesSources) {
  const auto first = counting(800);
  std::vector<int32_t> second = counting(200);
  for (int32_t& token : second) token += 10'000;
  const std::vector<WeightedTokens> sources = {{first, 3}, {second, 1}};
  WindowSampler mixed(sources, epochs(4, 10)), alone({{first, 1}}, epochs(1, 10));
  std::vector<int32_t> of_first, of_second;
  for (const int32_t start : starts_from(mixed, 0, 60, 4))
    (start < 10'000 ? of_first : of_second).push_back(start);
  EXPECT_EQ(of_first.size(), 180u);
  EXPECT_EQ(of_second.size(), 60u);
  EXPECT_EQ(starts_from(alone, 0, 180, 1), of_first);
  const size_t windows = 18;  // of an epoch of the second source
  for (size_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<int32_t> starts(of_second.begin() + static_cast<int64_t>(epoch * windows),
                                of_second.begin() + static_cast<int64_t>((epoch + 1) * windows));
    std::sort(starts.begin(), starts.end());
    for (size_t i = 1; i < windows; ++i) EXPECT_EQ(starts[i], starts[i - 1] + 10);
  }
  WindowSampler random(sources, {.batch = 4, .time = 10});
  int64_t from_second = 0;
  for (int64_t step = 0; step < 50; ++step)
    for (const int32_t start : starts_of(random.sample(step))) from_second += start >= 10'000;
  EXPECT_EQ(from_second, 50);
  message_of(ErrorKind::kUse, [&] { WindowSampler({{first, 1}, {counting(10), 1}}, epochs(4, 10)); });
  message_of(ErrorKind::kUse, [&] { WindowSampler({{first, 0}}, epochs(4, 10)); });
  message_of(ErrorKind::kUse, [] { sampling_of("shuffled"); });
}

TEST(SequentialWindows, OfSeveralSourcesOneAfterAnother) {
  const auto first = counting(12), second = counting(6), none = counting(0);
  SequentialWindows windows({first, none, second}, 2, 5);  // windows of 5, 5, 1 and 5 targets
  ASSERT_EQ(windows.batches(), 2);
  EXPECT_EQ(starts_of(windows.get(0)), (std::vector<int32_t>{0, 5}));
  EXPECT_EQ(windows.get(0).loss_mask, nullptr);
  const Batch& last = windows.get(1);
  EXPECT_EQ(starts_of(last), (std::vector<int32_t>{10, 0}));
  EXPECT_EQ(last.counted_targets, 6);
  EXPECT_EQ(last.targets[0], 11);
  EXPECT_EQ(last.loss_mask[1], 0);
  EXPECT_EQ(last.targets[9], 5);
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
