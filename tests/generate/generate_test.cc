#include "tril/generate/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "tests/generate/small_model.h"
#include "tests/support/compare.h"
#include "tests/support/expect_error.h"
#include "tril/nn/session.h"

namespace tril {
namespace {

using testing::expect_close;
using testing::expect_error;
using testing::small_config;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::map<int32_t, int> draws(const std::vector<float>& logits, const SamplerOptions& options,
                             uint64_t count) {
  std::map<int32_t, int> out;
  for (uint64_t i = 0; i < count; ++i) ++out[sample_token(logits, options, i)];
  return out;
}

TEST(Sampler, ZeroTemperatureTakesTheLowestOfTheHighest) {
  const std::vector<float> logits = {1, 3, -2, 3, 0};
  for (uint64_t i = 0; i < 20; ++i) EXPECT_EQ(sample_token(logits, {.temperature = 0, .seed = i}, i), 1);
}

TEST(Sampler, DrawsFollowTheSoftmax) {
  const std::vector<float> logits = {0, std::log(2.0f), std::log(5.0f)};
  const auto n = draws(logits, {.temperature = 1, .seed = 3}, 8000);
  EXPECT_NEAR(n.at(0) / 8000.0, 1 / 8.0, 0.015);
  EXPECT_NEAR(n.at(1) / 8000.0, 2 / 8.0, 0.015);
  EXPECT_NEAR(n.at(2) / 8000.0, 5 / 8.0, 0.015);
  // At temperature 1/2 the probabilities are squared: 1, 4, 25 of 30.
  const auto cold = draws(logits, {.temperature = 0.5f, .seed = 3}, 8000);
  EXPECT_NEAR(cold.at(2) / 8000.0, 25 / 30.0, 0.015);
}

TEST(Sampler, ExtremeTemperatures) {
  const std::vector<float> logits = {-1e4f, 1e4f, 0, 9999};
  EXPECT_EQ(draws(logits, {.temperature = 1e-8f}, 200).size(), 1u);
  EXPECT_EQ(draws(logits, {.temperature = 1e-8f}, 1).begin()->first, 1);
  EXPECT_EQ(draws(logits, {.temperature = std::numeric_limits<float>::denorm_min()}, 200).begin()->first, 1);
  const auto hot = draws({0, 1, 2, 3}, {.temperature = 1e8f}, 4000);
  for (int32_t id = 0; id < 4; ++id) EXPECT_NEAR(hot.at(id) / 4000.0, 0.25, 0.03);
}

TEST(Sampler, TopKKeepsTheMostLikely) {
  const std::vector<float> logits = {0, 2, 1, 2, 2, -1};
  const auto ids = [&](int64_t k) {
    std::set<int32_t> out;
    for (const auto& [id, count] : draws(logits, {.temperature = 5, .top_k = k}, 2000)) out.insert(id);
    return out;
  };
  EXPECT_EQ(ids(1), (std::set<int32_t>{1}));
  EXPECT_EQ(ids(2), (std::set<int32_t>{1, 3}));  // the lower ids on ties
  EXPECT_EQ(ids(4), (std::set<int32_t>{1, 2, 3, 4}));
  EXPECT_EQ(ids(100).size(), 6u);
  EXPECT_EQ(ids(0).size(), 6u);
}

TEST(Sampler, TopPKeepsTheShortestRunThatReachesIt) {
  // Probabilities 0.5, 0.25, 0.15, 0.1, shuffled.
  const std::vector<float> logits = {std::log(0.15f), std::log(0.5f), std::log(0.1f), std::log(0.25f)};
  const auto ids = [&](float p) {
    std::set<int32_t> out;
    for (const auto& [id, count] : draws(logits, {.temperature = 1, .top_p = p}, 2000)) out.insert(id);
    return out;
  };
  EXPECT_EQ(ids(1e-30f), (std::set<int32_t>{1}));
  EXPECT_EQ(ids(0.4f), (std::set<int32_t>{1}));
  EXPECT_EQ(ids(0.6f), (std::set<int32_t>{1, 3}));
  EXPECT_EQ(ids(0.8f), (std::set<int32_t>{0, 1, 3}));
  EXPECT_EQ(ids(1.0f).size(), 4u);
  const auto n = draws(logits, {.temperature = 1, .top_p = 0.6f}, 6000);
  EXPECT_NEAR(n.at(1) / 6000.0, 2 / 3.0, 0.03);
  // With top-k the nucleus is of what top-k left: 0.5 / 0.75 = 2/3.
  std::set<int32_t> both;
  for (const auto& [id, count] : draws(logits, {.temperature = 1, .top_k = 2, .top_p = 0.66f}, 500))
    both.insert(id);
  EXPECT_EQ(both, (std::set<int32_t>{1}));
}

TEST(Sampler, SeedAndIndexDecide) {
  const std::vector<float> logits(50, 0.0f);
  const auto sequence = [&](uint64_t seed) {
    std::vector<int32_t> out;
    for (uint64_t i = 0; i < 30; ++i) out.push_back(sample_token(logits, {.seed = seed}, i));
    return out;
  };
  EXPECT_EQ(sequence(1), sequence(1));
  EXPECT_NE(sequence(1), sequence(2));
  const std::vector<int32_t> one = sequence(1);
  EXPECT_GT(std::set<int32_t>(one.begin(), one.end()).size(), 10u);
}

TEST(Sampler, RefusesOptionsByName) {
  const std::vector<float> logits = {0, 1};
  const auto refused = [&](const SamplerOptions& options, const char* name) {
    expect_error(ErrorKind::kUse, {name}, [&] { sample_token(logits, options, 0); });
  };
  refused({.temperature = -1}, "--temperature is -1");
  refused({.temperature = kNaN}, "--temperature is nan");
  refused({.temperature = kInfinity}, "--temperature is inf");
  refused({.top_k = -1}, "--top-k is -1");
  refused({.top_p = 0}, "--top-p is 0");
  refused({.top_p = 1.5f}, "--top-p is 1.5");
  refused({.top_p = kNaN}, "--top-p is nan");
}

TEST(Sampler, NonFiniteLogitsStopIt) {
  for (const float bad : {kNaN, kInfinity, -kInfinity}) {
    for (const float temperature : {0.0f, 1.0f}) {
      const std::vector<float> logits = {0, bad, 1};
      expect_error(ErrorKind::kNumerics, {"non-finite logits at step 41"},
                   [&] { sample_token(logits, {.temperature = temperature}, 41); });
    }
  }
}

class GenerateTest : public ::testing::Test {
 protected:
  // Logits after these tokens, at most `context` of them, straight from the model.
  std::vector<float> direct(std::span<const int32_t> tokens) {
    const auto time = static_cast<int64_t>(tokens.size());
    Session<Transformer> session(model_, executor_, 1, time, false);
    std::vector<float> all(static_cast<size_t>(time * 23));
    model_.logits(session.context(), {.batch = 1, .time = time, .tokens = tokens.data()}, session.state(),
                  View(all.data(), {time, 23}));
    return {all.end() - 23, all.end()};
  }

  SerialExecutor executor_;
  testing::SmallModel small_{small_config("gpt")};
  Transformer& model_ = small_.model;
};

TEST_F(GenerateTest, DecoderGivesTheModelsLogits) {
  const std::vector<int32_t> tokens = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8};
  const std::vector<float> whole = direct(tokens);
  for (const size_t chunk : {1u, 2u, 3u, 7u, 12u}) {
    Decoder decoder(model_, executor_);
    std::span<const float> logits;
    for (size_t at = 0; at < tokens.size(); at += chunk)
      logits = decoder.append(std::span(tokens).subspan(at, std::min(chunk, tokens.size() - at)));
    EXPECT_EQ(decoder.length(), 12);
    expect_close(logits, whole);
  }
}

// The context is 12 and full: the last 6 tokens are read again, then the cache grows.
TEST_F(GenerateTest, BeyondTheContextHalfOfItIsReadAgain) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < 30; ++i) tokens.push_back((i * 7 + i * i) % 23);
  const std::span<const int32_t> all(tokens);
  Decoder decoder(model_, executor_);
  expect_close(decoder.append(all.first(20)), direct(all.subspan(8, 12)));
  expect_close(decoder.append(all.subspan(20, 1)), direct(all.subspan(15, 6)));
  for (size_t t = 21; t < 27; ++t)
    expect_close(decoder.append(all.subspan(t, 1)), direct(all.subspan(15, t - 14)));
  expect_close(decoder.append(all.subspan(27, 1)), direct(all.subspan(22, 6)));
  EXPECT_EQ(decoder.length(), 28);
}

// Rotary positions and a window below the context: no end. A window above it hides nothing, and the context
// counts.
TEST(Decoder, AWindowGoesOnWithoutEndIfTrainingSawItsEdge) {
  TransformerConfig c = small_config("llama");
  std::vector<int32_t> tokens;
  for (int i = 0; i < 40; ++i) tokens.push_back((i * 7 + i * i) % 23);
  SerialExecutor executor;
  const auto logits_after = [&](const TransformerConfig& config, size_t chunk, int64_t& bytes) {
    Transformer model(config);
    Parameters parameters(model);
    parameters.initialize(3);
    Decoder decoder(model, executor);
    std::span<const float> logits;
    for (size_t at = 0; at < tokens.size(); at += chunk)
      logits = decoder.append(std::span(tokens).subspan(at, std::min(chunk, tokens.size() - at)));
    bytes = decoder.cache_bytes();
    EXPECT_EQ(decoder.length(), 40);
    return std::vector<float>(logits.begin(), logits.end());
  };
  int64_t bytes = 0, other = 0;
  c.attention.window = 4;
  const std::vector<float> one = logits_after(c, 1, bytes), many = logits_after(c, 9, other);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], many[i], 1e-5);
  // The same model over all 40 tokens at once.
  TransformerConfig longer = c;
  longer.context = 40;
  const std::vector<float> whole = logits_after(longer, 40, other);
  for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], whole[i], 1e-5);

  c.attention.window = 1000000;
  const std::vector<float> wide = logits_after(c, 1, bytes);
  c.attention.window = 0;
  testing::expect_same_bits("a window above the context", wide, logits_after(c, 1, other));
  EXPECT_EQ(bytes, other);
}

TEST_F(GenerateTest, ResetForgets) {
  const std::vector<int32_t> a = {1, 2, 3}, b = {4, 5, 6, 7, 8};
  Decoder decoder(model_, executor_);
  const auto first = decoder.append(a);
  const std::vector<float> before(first.begin(), first.end());
  decoder.reset();
  decoder.append(b);
  decoder.reset();
  EXPECT_EQ(decoder.length(), 0);
  const auto again = decoder.append(a);
  testing::expect_same_bits("logits", again, before);
}

TEST_F(GenerateTest, GreedyRepeatsAndIsTheArgmax) {
  const std::vector<int32_t> prompt = {3, 1, 4};
  const auto a = generate(model_, executor_, prompt, 20, {.temperature = 0, .seed = 1});
  const auto b = generate(model_, executor_, prompt, 20, {.temperature = 0, .seed = 2});
  EXPECT_EQ(a, b);
  ASSERT_EQ(a.size(), 20u);
  const std::vector<float> logits = direct(prompt);
  EXPECT_EQ(a[0], std::max_element(logits.begin(), logits.end()) - logits.begin());
}

TEST_F(GenerateTest, ThreadsDoNotMatter) {
  const std::vector<int32_t> prompt = {3, 1, 4};
  const auto one = generate(model_, executor_, prompt, 30, {.temperature = 1});
  for (const int threads : {2, 3}) {
    ThreadPool pool(threads);
    EXPECT_EQ(generate(model_, pool, prompt, 30, {.temperature = 1}), one);
  }
}

TEST_F(GenerateTest, SeedsDiffer) {
  const std::vector<int32_t> prompt = {3};
  const auto one = generate(model_, executor_, prompt, 30, {.temperature = 1, .seed = 1});
  EXPECT_EQ(generate(model_, executor_, prompt, 30, {.temperature = 1, .seed = 1}), one);
  EXPECT_NE(generate(model_, executor_, prompt, 30, {.temperature = 1, .seed = 2}), one);
}

TEST_F(GenerateTest, StopsWhenToldAndAtEndOfText) {
  const std::vector<int32_t> prompt = {3};
  const auto all = generate(model_, executor_, prompt, 30, {.temperature = 1});
  std::vector<int32_t> seen;
  const auto stopped = generate(model_, executor_, prompt, 30, {.temperature = 1}, -1, [&](int32_t token) {
    seen.push_back(token);
    return seen.size() < 5;
  });
  EXPECT_EQ(stopped, std::vector<int32_t>(all.begin(), all.begin() + 5));
  EXPECT_EQ(seen, stopped);
  const int32_t end = all[9];
  const auto where = std::find(all.begin(), all.end(), end);
  EXPECT_EQ(generate(model_, executor_, prompt, 30, {.temperature = 1}, end),
            std::vector<int32_t>(all.begin(), where));
  EXPECT_TRUE(generate(model_, executor_, prompt, 0, {}).empty());
}

TEST_F(GenerateTest, RefusesBadPrompts) {
  const auto refused = [&](const std::vector<int32_t>& prompt, int64_t max_tokens, std::string_view part) {
    expect_error(ErrorKind::kUse, {part}, [&] { generate(model_, executor_, prompt, max_tokens, {}); });
  };
  refused({}, 3, "the prompt is empty");
  refused({1, 23}, 3, "token 23 at position 1");
  refused({-1}, 3, "token -1 at position 0");
  refused({1}, -1, "--max-tokens is -1");
}

TEST_F(GenerateTest, PoisonedWeightsStopIt) {
  small_.parameters.find("ln_final.weight").value.f32()[3] = kNaN;
  const std::vector<int32_t> prompt = {3};
  expect_error(ErrorKind::kNumerics, {"non-finite logits at step 0"},
               [&] { generate(model_, executor_, prompt, 3, {}); });
}

}  // namespace
}  // namespace tril
