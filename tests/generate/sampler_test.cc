// What the filters of the sampler do, each alone; order and ties.
#include "tril/generate/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::expect_error;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<float> logs(std::initializer_list<float> probabilities) {
  std::vector<float> out;
  for (const float p : probabilities) out.push_back(std::log(p));
  return out;
}

std::set<int32_t> ids(const std::vector<float>& logits, const SamplerOptions& options) {
  std::set<int32_t> out;
  for (uint64_t i = 0; i < 2000; ++i) out.insert(sample_token(logits, options, i));
  return out;
}

using Ids = std::set<int32_t>;

TEST(Sampler, MinPIsMeasuredByTheLikeliest) {
  const std::vector<float> logits = logs({0.15f, 0.5f, 0.1f, 0.25f});
  EXPECT_EQ(ids(logits, {.temperature = 1, .min_p = 0}).size(), 4u);
  EXPECT_EQ(ids(logits, {.temperature = 1, .min_p = 0.25f}), (Ids{0, 1, 3}));  // 0.1 / 0.5 is below
  EXPECT_EQ(ids(logits, {.temperature = 1, .min_p = 0.4f}), (Ids{1, 3}));
  EXPECT_EQ(ids(logits, {.temperature = 1, .min_p = 1}), (Ids{1}));
  EXPECT_EQ(ids({2, 2, 1}, {.temperature = 1, .min_p = 1}), (Ids{0, 1}));  // ties stay
  // After the temperature: at 1/2 probabilities are squared, 0.25^2 / 0.5^2 = 0.25.
  EXPECT_EQ(ids(logits, {.temperature = 0.5f, .min_p = 0.3f}), (Ids{1}));
}

TEST(Sampler, TopPLooksFartherThanTheFirstOnes) {
  const std::vector<float> flat(1000, 0.0f);
  const Ids half = ids(flat, {.temperature = 1, .top_p = 0.5f});
  EXPECT_GT(half.size(), 400u);
  EXPECT_LT(*half.rbegin(), 500);  // of equals the lower ids
}

TEST(Sampler, LogitBias) {
  const std::vector<float> logits = {0, 3, 1};
  EXPECT_EQ(ids(logits, {.temperature = 0, .logit_bias = {{0, 5}}}), (Ids{0}));
  EXPECT_EQ(ids(logits, {.temperature = 0, .logit_bias = {{0, 2}, {0, 2}}}), (Ids{0}));  // both count
  EXPECT_EQ(ids(logits, {.temperature = 100, .logit_bias = {{1, -kInfinity}}}), (Ids{0, 2}));
  expect_error(ErrorKind::kUse, {"--logit-bias", "no token 3", "from 0 to 2"}, [&] {
    sample_token(logits, {.logit_bias = {{3, 1}}}, 0);
  });
  expect_error(ErrorKind::kUse, {"--logit-bias", "all 3 tokens"}, [&] {
    sample_token(logits, {.logit_bias = {{0, -kInfinity}, {1, -kInfinity}, {2, -kInfinity}}}, 0);
  });
  for (const float bad : {kNaN, kInfinity})
    expect_error(ErrorKind::kUse, {"--logit-bias: token 1 has"}, [&] {
      sample_token(logits, {.logit_bias = {{1, bad}}}, 0);
    });
}

TEST(Sampler, RepetitionPenaltySeesThePromptAndBothSigns) {
  // A positive logit is divided, a negative one multiplied.
  const std::vector<int32_t> prompt = {0};
  SamplerOptions options{.temperature = 0, .repetition_penalty = 2};
  EXPECT_EQ(Sampler(options, prompt).next(std::vector<float>{1.9f, 1}), 1);
  EXPECT_EQ(Sampler(options, prompt).next(std::vector<float>{2.1f, 1}), 0);
  EXPECT_EQ(Sampler(options, prompt).next(std::vector<float>{-1, -1.9f}), 1);
  EXPECT_EQ(Sampler(options, prompt).next(std::vector<float>{-1, -2.1f}), 0);
  // Below 1 it asks for repetitions.
  options.repetition_penalty = 0.5f;
  EXPECT_EQ(Sampler(options, prompt).next(std::vector<float>{1, 1.9f}), 0);
}

TEST(Sampler, PresenceAndFrequencyCountWhatWasWritten) {
  const std::vector<int32_t> prompt = {0, 0, 0};
  const std::vector<float> logits = {1, 0.2f};
  Sampler presence({.temperature = 0, .presence_penalty = 1}, prompt);
  EXPECT_EQ(presence.next(logits), 0);  // the prompt does not count
  EXPECT_EQ(presence.next(logits), 1);
  EXPECT_EQ(presence.next(logits), 0);  // both were written: as before
  EXPECT_EQ(presence.next(logits), 0);  // and it does not add up
  Sampler both({.temperature = 0, .repetition_penalty = 1.01f, .presence_penalty = 1}, prompt);
  EXPECT_EQ(both.next(logits), 0);  // nor where the other penalty sees it
  Sampler frequency({.temperature = 0, .frequency_penalty = 0.5f}, prompt);
  std::vector<int32_t> drawn;
  for (int i = 0; i < 6; ++i) drawn.push_back(frequency.next(logits));
  // 1 | 0.5 | 0 of 0.2: then token 1 | its 0.2 - 0.5 is below 0: token 0, ...
  EXPECT_EQ(drawn, (std::vector<int32_t>{0, 0, 1, 0, 1, 0}));
}

TEST(Sampler, NoNgramComesTwice) {
  const std::vector<float> logits = {3, 2, 1};
  const std::vector<int32_t> prompt = {0, 1};
  Sampler bigrams({.temperature = 0, .no_repeat_ngram = 2}, prompt);
  std::vector<int32_t> all = prompt;
  for (int i = 0; i < 8; ++i) all.push_back(bigrams.next(logits));
  EXPECT_EQ(all, (std::vector<int32_t>{0, 1, 0, 0, 2, 0, /* 00 01 02 are out: none is left */ 0, 0, 0, 0}));
  Sampler once({.temperature = 0, .no_repeat_ngram = 1}, std::vector<int32_t>{0});
  EXPECT_EQ(once.next(logits), 1);
  EXPECT_EQ(once.next(logits), 2);
  Sampler longer({.temperature = 0, .no_repeat_ngram = 3}, std::vector<int32_t>{0, 0, 0});
  EXPECT_EQ(longer.next(logits), 1);
  EXPECT_EQ(longer.next(logits), 0);
  Sampler strange({.temperature = 0, .no_repeat_ngram = 1},
                  std::vector<int32_t>{50000, -1});  // not of the model
  EXPECT_EQ(strange.next(logits), 0);
}

TEST(Sampler, ASequenceIsItsDrawsOneByOne) {
  const std::vector<float> logits(40, 0.0f);
  Sampler sampler({.temperature = 1, .seed = 9}, std::vector<int32_t>{1});
  for (uint64_t i = 0; i < 30; ++i)
    EXPECT_EQ(sampler.next(logits), sample_token(logits, {.temperature = 1, .seed = 9}, i));
}

TEST(Sampler, RefusesTheNewOptionsByName) {
  const auto refused = [](const SamplerOptions& options, std::string_view name) {
    expect_error(ErrorKind::kUse, {name}, [&] { check_sampler(options); });
  };
  for (const float bad : {-0.1f, 1.1f, kNaN}) refused({.min_p = bad}, "--min-p is");
  for (const float bad : {0.0f, -1.0f, 101.0f, kNaN, kInfinity})
    refused({.repetition_penalty = bad}, "--repetition-penalty is");
  for (const float bad : {-101.0f, 101.0f, kNaN, kInfinity}) {
    refused({.presence_penalty = bad}, "--presence-penalty is");
    refused({.frequency_penalty = bad}, "--frequency-penalty is");
  }
  refused({.no_repeat_ngram = -1}, "--no-repeat-ngram is -1");
  refused({.logit_bias = {{-1, 0}}}, "--logit-bias");
}

// The largest logits a float has, the largest penalties: no draw is lost.
TEST(Sampler, ExtremesStayFinite) {
  const float big = std::numeric_limits<float>::max();
  const std::vector<float> logits = {big, -big, 0, big};
  for (const float temperature : {0.0f, 1e-8f, 1.0f, 1e8f}) {
    Sampler sampler({.temperature = temperature,
                     .top_p = 0.9f,
                     .min_p = 0.1f,
                     .repetition_penalty = 100,
                     .presence_penalty = 100,
                     .frequency_penalty = -100},
                    std::vector<int32_t>{0, 1, 2, 3});
    for (int i = 0; i < 50; ++i) {
      const int32_t id = sampler.next(logits);
      EXPECT_TRUE(id == 0 || id == 3) << id;
    }
  }
}

TEST(LogProbability, IsOfTheModelItself) {
  const std::vector<float> logits = logs({0.15f, 0.5f, 0.1f, 0.25f});
  EXPECT_NEAR(log_probability(logits, 3).log_probability, std::log(0.25), 1e-7);
  const std::vector<TokenProbability> best = likeliest(logits, 2);
  ASSERT_EQ(best.size(), 2u);
  EXPECT_EQ(best[0].id, 1);
  EXPECT_EQ(best[1].id, 3);
  EXPECT_NEAR(best[1].log_probability, std::log(0.25), 1e-7);
  EXPECT_EQ(likeliest(logits, 9).size(), 4u);
  EXPECT_EQ(likeliest(std::vector<float>{1, 1, 1}, 2)[1].id, 1);
  EXPECT_NEAR(log_probability(std::vector<float>{1e30f, 0}, 0).log_probability, 0, 1e-12);
}

}  // namespace
}  // namespace tril
