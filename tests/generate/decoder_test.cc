// Several sequences together, and one that goes back.
#include "tril/generate/decoder.h"

#include <gtest/gtest.h>

#include "tests/generate/small_model.h"
#include "tests/support/expect_error.h"
#include "tril/generate/generate.h"

namespace tril {
namespace {

using testing::expect_close;
using testing::small_config;
using testing::SmallModel;

std::vector<GenerateRequest> requests() {
  return {{{3, 1, 4}, 1},
          {{5}, 2},
          {{9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8}, 3},
          {{3, 1, 4}, 4},
          {{22, 0}, 1}};
}

// Lengths beyond the context of 12, too: half of it is read again, of each sequence at its own time.
TEST(GenerateBatch, EachTextIsWhatItIsAlone) {
  SerialExecutor executor;
  bool some_stop = false, some_do_not = false;
  for (const auto& config :
       {small_config("gpt"), small_config("llama"), small_config("llama", 4), small_config("gpt", 5)}) {
    SmallModel m(config);
    const std::vector<GenerateRequest> all = requests();
    GenerateOptions options{.sampler = {.temperature = 1, .repetition_penalty = 1.3f, .no_repeat_ngram = 3},
                            .max_tokens = 30,
                            .stop_ids = {11}};
    std::vector<std::vector<int32_t>> together(all.size());
    generate_batch(m.model, executor, all, options, [&](size_t r, int32_t token, std::span<const float>) {
      together[r].push_back(token);
      return true;
    });
    EXPECT_NE(together[0], together[3]);  // of one prompt and two seeds
    for (size_t r = 0; r < all.size(); ++r) {
      std::vector<int32_t> alone;
      generate_batch(m.model, executor, {&all[r], 1}, options,
                     [&](size_t, int32_t token, std::span<const float>) {
                       alone.push_back(token);
                       return true;
                     });
      EXPECT_EQ(together[r], alone) << r;
      some_stop |= alone.back() == 11 && alone.size() < 30;
      some_do_not |= alone.size() == 30;
    }
  }
  EXPECT_TRUE(some_stop && some_do_not);
}

TEST(GenerateBatch, ThreadsDoNotMatter) {
  SmallModel m(small_config("llama"));
  const std::vector<GenerateRequest> all = requests();
  std::vector<std::vector<std::vector<int32_t>>> texts;
  for (const int threads : {1, 3}) {
    ThreadPool pool(threads);
    texts.emplace_back(all.size());
    generate_batch(m.model, pool, all, {.max_tokens = 20},
                   [&](size_t r, int32_t token, std::span<const float>) {
                     texts.back()[r].push_back(token);
                     return true;
                   });
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(GenerateBatch, ATextEndsWhereItIsTold) {
  SmallModel m(small_config("gpt"));
  SerialExecutor executor;
  std::vector<size_t> tokens(5);
  generate_batch(m.model, executor, requests(), {.max_tokens = 9},
                 [&](size_t r, int32_t, std::span<const float> logits) {
                   EXPECT_EQ(logits.size(), 23u);
                   return ++tokens[r] <= r;
                 });
  EXPECT_EQ(tokens, (std::vector<size_t>{1, 2, 3, 4, 5}));
}

TEST(BatchDecoder, RefusesWhatIsNoToken) {
  SmallModel m(small_config("gpt"));
  SerialExecutor executor;
  BatchDecoder decoder(m.model, executor, {.sequences = 2});
  const std::vector<int32_t> good = {1, 2}, bad = {1, 23};
  const std::span<const int32_t> one[] = {good}, two[] = {good, bad};
  testing::expect_error(ErrorKind::kUse, {"1 sequences", "has 2"}, [&] { decoder.append(one); });
  testing::expect_error(ErrorKind::kUse, {"token 23 at position 1"}, [&] { decoder.append(two); });
  EXPECT_EQ(decoder.length(0), 0);
  EXPECT_TRUE(decoder.logits(0).empty());
}

// What was read stays where it is the same; the logits are those of a decoder that never went another way.
TEST(Decoder, BecomeReadsOnlyWhatIsNew) {
  SerialExecutor executor;
  const std::vector<int32_t> a = {3, 1, 4, 1, 5, 9}, b = {3, 1, 4, 2, 6}, c = {3, 1, 4, 2, 6, 7, 7, 1};
  for (const auto& config :
       {small_config("gpt"), small_config("llama"), small_config("llama", 4), small_config("gpt", 5)}) {
    SmallModel m(config);
    Decoder decoder(m.model, executor);
    int64_t read = 0;
    const auto check = [&](const std::vector<int32_t>& tokens, int64_t expected_read) {
      const std::span<const float> logits = decoder.become(tokens);
      EXPECT_EQ(decoder.tokens_read() - read, expected_read);
      read = decoder.tokens_read();
      EXPECT_EQ(decoder.length(), std::ssize(tokens));
      Decoder fresh(m.model, executor);
      expect_close(logits, fresh.append(tokens));
    };
    check(a, 6);
    check(b, 2);
    check(c, 3);
    check(c, 1);  // the last again, for its logits
    check({7}, 1);
    check(a, 6);
  }
}

// A window that has moved on cannot go back: all is read again.
TEST(Decoder, BecomeReadsAllAgainWhereTheWindowHasMovedOn) {
  SerialExecutor executor;
  SmallModel m(small_config("llama", 4));
  std::vector<int32_t> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back(i * 7 % 23);
  Decoder decoder(m.model, executor);
  for (const int32_t token : tokens) decoder.append({&token, 1});
  const int64_t read = decoder.tokens_read();
  tokens.resize(20);
  const std::span<const float> logits = decoder.become(tokens);
  EXPECT_EQ(decoder.tokens_read() - read, 20);
  Decoder fresh(m.model, executor);
  expect_close(logits, fresh.append(tokens));
}

}  // namespace
}  // namespace tril
