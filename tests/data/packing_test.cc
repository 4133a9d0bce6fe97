#include "tril/data/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/support/expect_error.h"
#include "tests/text/chat_tokenizer.h"

namespace tril {
namespace {

using testing::expect_error;

class PackingTest : public ::testing::Test {
 protected:
  static SourceConversation talk(const std::string& question, const std::string& answer) {
    return {question, {{"user", question}, {"assistant", answer}}};
  }
  static std::vector<SourceConversation> many(int count) {
    std::vector<SourceConversation> out;
    for (int i = 0; i < count; ++i)
      out.push_back(talk("Number " + std::to_string(i) + std::string(static_cast<size_t>(i * 7 % 23), 'x'),
                         "Four" + std::string(static_cast<size_t>(i * 5 % 11), 'y')));
    return out;
  }
  static std::multiset<std::vector<int32_t>> texts_of(const Conversations& side) {
    std::multiset<std::vector<int32_t>> out;
    for (size_t i = 0; i + 1 < side.begins.size(); ++i)
      out.insert({side.tokens.begin() + side.begins[i], side.tokens.begin() + side.begins[i + 1]});
    return out;
  }
  static std::vector<int32_t> row_of(const Batch& batch, int64_t row) {
    return {batch.targets + row * batch.time, batch.targets + (row + 1) * batch.time};
  }
  std::shared_ptr<const ConversationCorpus> pack(const std::vector<SourceConversation>& conversations,
                                                 int64_t context, double fraction = 0.2) const {
    return pack_conversations(conversations, chat_, tokenizer_, fraction, context);
  }

  Tokenizer tokenizer_ = testing::chat_tokenizer({"<|im_start|>", "<|im_end|>"});
  ChatTemplate chat_{"chatml", tokenizer_};
};

TEST_F(PackingTest, EveryConversationStandsInOneRowAsItIs) {
  const auto corpus = pack(many(60), 96);
  std::multiset<std::vector<int32_t>> found;
  const Conversations& c = corpus->train;
  ASSERT_GT(c.count(), 30);
  const PackedRows& rows = *corpus->train_rows;
  PackedRows::Columns columns(1, 96);
  int64_t counted = 0, padding = 0;
  for (int64_t row = 0; row < rows.count(); ++row) {
    rows.fill(row, 0, columns);
    int64_t in_row = 0;
    for (size_t t = 0; t < 96;) {
      const int32_t document = columns.documents[t];
      std::vector<int32_t> tokens = {columns.tokens[t]};
      const size_t begin = t;
      for (; t < 96 && columns.documents[t] == document; ++t) {
        in_row += columns.mask[t];
        if (document < 0) {
          EXPECT_EQ(columns.mask[t], 0);
          ++padding;
          continue;
        }
        EXPECT_EQ(columns.positions[t], static_cast<int32_t>(t - begin));
        EXPECT_EQ(columns.tokens[t], tokens.back());
        tokens.push_back(columns.targets[t]);
      }
      if (document >= 0) found.insert(tokens);
    }
    EXPECT_EQ(in_row, rows.counted(row));
    EXPECT_GT(in_row, 0);
    counted += in_row;
  }
  EXPECT_EQ(found, texts_of(c));
  EXPECT_EQ(counted, c.learned_tokens);
  EXPECT_LT(padding, rows.count() * 96 / 4);  // best fit leaves little
  EXPECT_LT(rows.count(), c.count() * 2 / 3);
}

TEST_F(PackingTest, OnlyAnswersCount) {
  const auto corpus = pack({talk("Hello", "Hi!")}, 40);
  const Conversations& c = corpus->train;
  EXPECT_EQ(c.learned_tokens, std::ssize(tokenizer_.encode("Hi!")) + 1);
  EXPECT_EQ(c.learned_bytes, 3);  // the end is no text
  EXPECT_EQ(corpus->validation.count(), 0);
  EXPECT_EQ(corpus->validation_rows, nullptr);
  PackedSampler sampler(*corpus->train_rows, 2, 1, Sampling::kEpochs);
  const Batch& batch = sampler.sample_at({0});
  std::vector<int32_t> learned;
  for (int64_t n = 0; n < 40; ++n)
    if (batch.loss_mask[n] != 0) learned.push_back(batch.targets[n]);
  std::vector<int32_t> expected = tokenizer_.encode("Hi!");
  expected.push_back(chat_.stop_ids()[0]);
  EXPECT_EQ(learned, expected);
  EXPECT_EQ(batch.counted_targets, 2 * c.learned_tokens);
}

TEST_F(PackingTest, WhatIsTooLongIsCutAndCounted) {
  const std::vector<SourceConversation> talks = {talk("Hello", "Hi!"), talk("Hello", std::string(200, 'y')),
                                                 talk(std::string(200, 'x'), "Hi!")};
  const auto corpus = pack(talks, 40);
  EXPECT_EQ(corpus->train.count(), 2);
  EXPECT_EQ(corpus->cut, 2);
  EXPECT_EQ(corpus->unanswered, 1);
  int64_t tokens = 0;
  for (const SourceConversation& one : talks) tokens += std::ssize(chat_.encode(one.messages).tokens);
  EXPECT_EQ(tokens - corpus->cut_tokens, std::ssize(corpus->train.tokens) + 41);  // of the one left out
  expect_error(ErrorKind::kData, {"all 1 conversations", "context of 40"}, [&] { pack({talks[2]}, 40); });
  // One that fits to the token is whole.
  const auto size = std::ssize(chat_.encode(talks[0].messages).tokens);
  EXPECT_EQ(pack({talks[0]}, size - 1)->cut, 0);
  EXPECT_EQ(pack({talks[0]}, size - 2)->cut, 1);
}

TEST_F(PackingTest, TheSplitIsOfMany) {
  EXPECT_EQ(pack(many(19), 96, 0.5)->validation.count(), 0);
  EXPECT_GT(pack(many(20), 96, 0.5)->validation.count(), 0);
  const auto corpus = pack(many(100), 96, 0.3);
  EXPECT_GT(corpus->validation.count(), 10);
  EXPECT_EQ(corpus->train.count() + corpus->validation.count(), 100);
  EXPECT_EQ(pack(many(100), 96, 0)->validation.count(), 0);
  EXPECT_EQ(corpus->fingerprint, pack(many(100), 96, 0.3)->fingerprint);
  EXPECT_NE(corpus->fingerprint, pack(many(100), 96, 0.4)->fingerprint);
}

// Neither its place, nor its name, nor what others there are decides which side a conversation is on.
TEST_F(PackingTest, TheSplitIsByText) {
  std::vector<SourceConversation> talks = many(100);
  const auto all = texts_of(pack(talks, 96, 0.3)->validation);
  ASSERT_GT(all.size(), 10u);
  std::ranges::reverse(talks);
  for (SourceConversation& one : talks) one.name = "x";
  EXPECT_EQ(texts_of(pack(talks, 96, 0.3)->validation), all);
  const auto half = pack(many(50), 96, 0.3);
  for (const Conversations* side : {&half->train, &half->validation})
    for (const auto& one : texts_of(*side)) EXPECT_EQ(all.contains(one), side == &half->validation);
}

TEST_F(PackingTest, AnEpochReadsEachRowOnce) {
  const auto corpus = pack(many(60), 96);
  const int64_t count = corpus->train_rows->count();
  PackedSampler one(*corpus->train_rows, 1, 7, Sampling::kEpochs),
      three(*corpus->train_rows, 3, 7, Sampling::kEpochs);
  std::vector<std::vector<int32_t>> order;
  for (int64_t i = 0; i < 2 * count; ++i) order.push_back(row_of(one.sample_at({i}), 0));
  const std::set<std::vector<int32_t>> first(order.begin(), order.begin() + count),
      second(order.begin() + count, order.end());
  EXPECT_EQ(std::ssize(first), count);
  EXPECT_EQ(first, second);
  EXPECT_FALSE(std::equal(order.begin(), order.begin() + count, order.begin() + count));
  for (const int64_t at : {0, 4, 11}) {
    const Batch& batch = three.sample_at({at});
    for (int64_t row = 0; row < 3; ++row) EXPECT_EQ(row_of(batch, row), order[static_cast<size_t>(at + row)]);
    EXPECT_EQ(batch.counted_targets, three.counted_at({at}));
  }
}

TEST_F(PackingTest, RandomRowsAreEachAsLikely) {
  const auto corpus = pack(many(60), 96);
  const int64_t count = corpus->train_rows->count();
  PackedSampler one(*corpus->train_rows, 1, 7, Sampling::kRandom),
      three(*corpus->train_rows, 3, 7, Sampling::kRandom);
  std::map<std::vector<int32_t>, int> seen;
  for (int64_t i = 0; i < 100 * count; ++i) ++seen[row_of(one.sample_at({i}), 0)];
  EXPECT_EQ(std::ssize(seen), count);
  for (const auto& [row, times] : seen) EXPECT_NEAR(times, 100, 50);  // 5 standard deviations
  // Not as often as in epochs, each.
  EXPECT_FALSE(std::ranges::all_of(seen, [](const auto& row) { return row.second == 100; }));
  for (const int64_t at : {0, 4, 11})
    for (int64_t row = 0; row < 3; ++row)
      EXPECT_EQ(row_of(three.sample_at({at}), row), row_of(one.sample_at({at + row}), 0));
}

TEST_F(PackingTest, WindowsReadEachRowOnceAndPadNothingIn) {
  const auto corpus = pack(many(100), 96, 0.3);
  const PackedRows& rows = *corpus->validation_rows;
  PackedWindows windows(rows, 4);
  int64_t counted = 0, masked = 0;
  for (int64_t i = 0; i < windows.batches(); ++i) {
    const Batch& batch = windows.get(i);
    counted += batch.counted_targets;
    for (int64_t n = 0; n < batch.rows(); ++n) masked += batch.loss_mask[n];
  }
  EXPECT_EQ(counted, corpus->validation.learned_tokens);
  EXPECT_EQ(masked, counted);
  expect_error(ErrorKind::kUse, {"packed windows"}, [&] { windows.get(windows.batches()); });
}

}  // namespace
}  // namespace tril
