#include "tril/nn/key_value_cache.h"

#include <gtest/gtest.h>

#include "tests/nn/model_fixture.h"
#include "tests/support/expect_error.h"
#include "tril/kernels/bfloat16.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::expect_near;
using testing::Model;
using testing::RandomBatch;

constexpr int64_t kVocabulary = 17;

TransformerConfig config_of(std::string_view arch) {
  TransformerConfig c{.vocabulary = kVocabulary, .context = 40, .channels = 24, .layers = 3, .heads = 4};
  c.set_architecture(arch);
  if (arch == "llama") c.kv_heads = 2;
  return c;
}

TransformerConfig windowed() {
  TransformerConfig c = config_of("llama");
  c.attention.window = 6;
  c.attention.qk_norm = c.attention.sinks = true;
  c.attention.softcap = 5;
  c.logit_softcap = 4;
  return c;
}

TransformerConfig alibi() {
  TransformerConfig c = config_of("gpt");
  c.attention.positions = Positions::kAlibi;
  return c;
}

// Logits (V) after each of the tokens, straight from the model.
std::vector<float> direct(const Transformer& model, std::span<const int32_t> tokens,
                          const int32_t* prefix = nullptr) {
  SerialExecutor executor;
  Transformer& same = const_cast<Transformer&>(model);  // NOLINT: dry passes of a session run backward too
  const auto time = std::ssize(tokens);
  Session<Transformer> session(same, executor, 1, time, false);
  std::vector<float> out(static_cast<size_t>(time * kVocabulary));
  model.logits(session.context(), {.batch = 1, .time = time, .tokens = tokens.data(), .prefix = prefix},
               session.state(), View(out.data(), {time, kVocabulary}));
  return out;
}

std::span<const float> after(const std::vector<float>& logits, int64_t token) {
  return std::span(logits).subspan(static_cast<size_t>(token * kVocabulary), kVocabulary);
}

struct Appender {
  const Transformer& model;
  Executor& executor;
  KeyValueCache cache;
  Tensor logits;
  Appender(const Transformer& m, Executor& e, const KeyValueCacheConfig& config)
      : model(m), executor(e), cache(m.config(), config), logits({config.batch, kVocabulary}) {}
  std::span<const float> append(int64_t time, const std::vector<int32_t>& tokens,
                                const int32_t* counts = nullptr, const int32_t* prefix = nullptr) {
    AppendSession session(model, executor, cache, time);
    model.append(session.context(),
                 {.batch = cache.config().batch, .time = time, .tokens = tokens.data(), .prefix = prefix},
                 counts, cache, session.state(), logits);
    return {logits.f32(), static_cast<size_t>(logits.view().elements())};
  }
};

// A prompt at once, in chunks, and token by token: the logits of the whole model.
TEST(KeyValueCache, ChunksAndSingleTokensGiveTheModelsLogits) {
  for (const TransformerConfig& config :
       {config_of("gpt"), config_of("classic"), config_of("llama"), windowed(), alibi()}) {
    const Model model(config);
    const RandomBatch data(1, 33, kVocabulary);
    const std::vector<float> expected = direct(model.transformer, data.tokens);
    ThreadPool pool(2);
    for (const int64_t chunk : {1, 2, 5, 16, 33}) {
      Appender appender(model.transformer, pool, {.capacity = 40});
      for (int64_t at = 0; at < 33; at += chunk) {
        const int64_t time = std::min<int64_t>(chunk, 33 - at);
        const auto begin = data.tokens.begin() + at;
        const auto logits = appender.append(time, {begin, begin + time});
        expect_near("chunk of " + std::to_string(chunk), logits, after(expected, at + time - 1), 1e-5);
        if (::testing::Test::HasFatalFailure()) return;
      }
      EXPECT_EQ(appender.cache.length(0), 33);
    }
  }
}

// Three sequences of different lengths, one of which starts late, grow together: each as if it were alone.
TEST(KeyValueCache, SequencesOfDifferentLengths) {
  for (const TransformerConfig& config : {config_of("gpt"), windowed(), alibi()}) {
    const Model model(config);
    const RandomBatch data(3, 30, kVocabulary);
    SerialExecutor executor;
    Appender appender(model.transformer, executor, {.batch = 3, .capacity = 30});
    std::vector<std::vector<float>> expected;
    for (int64_t b = 0; b < 3; ++b)
      expected.push_back(
          direct(model.transformer, std::span(data.tokens).subspan(static_cast<size_t>(30 * b), 30)));
    std::vector<int64_t> read = {0, 0, 0};
    const std::vector<std::vector<int32_t>> rounds = {{5, 2, 0}, {3, 7, 0}, {1, 1, 4},
                                                      {1, 1, 1}, {0, 1, 1}, {9, 3, 6}};
    for (const std::vector<int32_t>& counts : rounds) {
      const int64_t time = *std::max_element(counts.begin(), counts.end());
      std::vector<int32_t> tokens(static_cast<size_t>(3 * time));
      for (int64_t b = 0; b < 3; ++b) {
        const int64_t count = counts[static_cast<size_t>(b)];
        std::copy_n(data.tokens.begin() + 30 * b + read[static_cast<size_t>(b)], count,
                    tokens.begin() + (b + 1) * time - count);
        read[static_cast<size_t>(b)] += count;
      }
      const auto logits = appender.append(time, tokens, counts.data());
      for (int64_t b = 0; b < 3; ++b) {
        const auto i = static_cast<size_t>(b);
        EXPECT_EQ(appender.cache.length(b), read[i]);
        if (counts[i] == 0) continue;
        expect_near("sequence " + std::to_string(b), logits.subspan(i * kVocabulary, kVocabulary),
                    after(expected[i], read[i] - 1), 1e-5);
      }
    }
  }
}

// With a window and rotary positions the cache slides: 300 tokens through room for two windows.
TEST(KeyValueCache, SlidesWithoutEnd) {
  TransformerConfig config = windowed();
  config.context = 300;
  const Model model(config);
  const RandomBatch data(1, 300, kVocabulary);
  const std::vector<float> expected = direct(model.transformer, data.tokens);
  SerialExecutor executor;
  Appender appender(model.transformer, executor, {.capacity = 10, .largest_append = 8});
  EXPECT_TRUE(appender.cache.endless());
  // Layers; keys and values; 2 heads of 14 slots of 24 bytes, in whole lines of 64.
  EXPECT_EQ(appender.cache.bytes(), 3 * 2 * 704);
  const std::vector<int64_t> chunks = {8, 1, 1, 3, 1, 7};
  for (int64_t at = 0, i = 0; at < 300; ++i) {
    const int64_t time = std::min(chunks[static_cast<size_t>(i) % chunks.size()], 300 - at);
    const auto begin = data.tokens.begin() + at;
    const auto logits = appender.append(time, {begin, begin + time});
    at += time;
    expect_near("token " + std::to_string(at), logits, after(expected, at - 1), 1e-5);
    if (HasFatalFailure()) return;
  }
  EXPECT_FALSE(KeyValueCache(config_of("llama"), {}).endless());
}

// Room for all that the context allows would be asked for, and cleared, before the first token.
TEST(KeyValueCache, RoomGrowsWithTheSequences) {
  TransformerConfig config = config_of("llama");
  config.context = 4000;
  config.layers = 2;
  const Model model(config);
  const RandomBatch data(1, 2200, kVocabulary);
  const std::vector<float> expected = direct(model.transformer, data.tokens);
  ThreadPool pool(2);
  Appender appender(model.transformer, pool, {.largest_append = 1200});
  const int64_t at_first = appender.cache.bytes();
  int64_t at = 0;
  for (const int64_t time : {1000, 24, 1, 1, 1174}) {
    const auto begin = data.tokens.begin() + at;
    const auto logits = appender.append(time, {begin, begin + time});
    at += time;
    expect_near("token " + std::to_string(at), logits, after(expected, at - 1), 1e-5);
    const int64_t room = at <= 1024 ? 1024 : at <= 2048 ? 2048 : 4000;
    EXPECT_EQ(appender.cache.bytes() * 1024, at_first * room) << at;
  }
}

TEST(KeyValueCache, Bfloat16IsNearAndHalfAsLarge) {
  const Model model(config_of("llama"));
  const RandomBatch data(1, 20, kVocabulary);
  const std::vector<float> expected = direct(model.transformer, data.tokens);
  SerialExecutor executor;
  Appender half(model.transformer, executor, {.dtype = DType::kBF16}), whole(model.transformer, executor, {});
  EXPECT_EQ(2 * half.cache.bytes(), whole.cache.bytes());
  double squares = 0, errors = 0;
  for (int64_t t = 0; t < 20; ++t) {
    const auto logits = half.append(1, {data.tokens[static_cast<size_t>(t)]}), exact = after(expected, t);
    for (size_t i = 0; i < exact.size(); ++i) {
      squares += double{exact[i]} * exact[i];
      errors += (double{logits[i]} - exact[i]) * (double{logits[i]} - exact[i]);
    }
  }
  // 8 bits round by 2^-9 at most, through three layers.
  const double error = std::sqrt(errors / squares);
  RecordProperty("relative_error", std::to_string(error));
  EXPECT_GT(error, 1e-5);
  EXPECT_LT(error, 0.01);
}

TEST(KeyValueCache, APrefixIsSeenByAll) {
  const Model model(config_of("llama"));
  const RandomBatch data(1, 12, kVocabulary);
  const int32_t prefix = 5;
  const std::vector<float> expected = direct(model.transformer, data.tokens, &prefix);
  SerialExecutor executor;
  Appender appender(model.transformer, executor, {});
  expect_near("the prefix",
              appender.append(5, {data.tokens.begin(), data.tokens.begin() + 5}, nullptr, &prefix),
              after(expected, 4), 1e-5);
  for (int64_t t = 5; t < 12; ++t) {
    expect_near("after the prefix",
                appender.append(1, {data.tokens[static_cast<size_t>(t)]}, nullptr, &prefix),
                after(expected, t), 1e-5);
  }
}

TEST(KeyValueCache, SameBitsForAnyNumberOfThreads) {
  const Model model(windowed());
  const RandomBatch data(2, 24, kVocabulary);
  std::vector<float> first;
  for (const int threads : {1, 2, 3, 4}) {
    ThreadPool pool(threads);
    Appender appender(model.transformer, pool, {.batch = 2});
    std::vector<float> all;
    for (const int64_t time : {9, 1, 1, 12, 1}) {
      const auto logits = appender.append(time, data.tokens);
      all.insert(all.end(), logits.begin(), logits.end());
    }
    if (threads == 1)
      first = all;
    else
      testing::expect_same_bits("logits", all, first);
  }
}

TEST(KeyValueCache, ForgetsOnDemandAndRefusesWhatDoesNotFit) {
  const Model model(config_of("gpt"));
  const RandomBatch data(2, 8, kVocabulary);
  SerialExecutor executor;
  Appender appender(model.transformer, executor, {.batch = 2, .capacity = 10, .largest_append = 8});
  const auto first = appender.append(8, data.tokens);
  const std::vector<float> before(first.begin(), first.end());
  expect_error(ErrorKind::kUse, {"sequence 0 has 8 tokens and cannot take 8 more", "10"},
               [&] { appender.append(8, data.tokens); });
  const int32_t counts[] = {1, 9};
  expect_error(ErrorKind::kUse, {"9 of 2 new tokens of sequence 1"},
               [&] { appender.append(2, data.tokens, counts); });
  std::vector<int32_t> foreign = data.tokens;
  foreign[3] = 99;
  expect_error(ErrorKind::kUse, {"token 99"}, [&] { appender.append(2, foreign); });
  EXPECT_EQ(appender.cache.length(0), 8);  // nothing was counted in
  appender.cache.clear(1);
  EXPECT_EQ(appender.cache.length(0) - appender.cache.length(1), 8);
  appender.cache.clear();
  testing::expect_same_bits("after clear()", appender.append(8, data.tokens), before);
  using Cache = KeyValueCache;
  expect_error(ErrorKind::kUse, {"capacity 41 is above the context of 40"},
               [] { Cache(config_of("gpt"), {.capacity = 41}); });
  EXPECT_NO_THROW(Cache(config_of("llama"), {.capacity = 41}));
  expect_error(ErrorKind::kUse, {"batch 0"}, [] { Cache(config_of("gpt"), {.batch = 0}); });
  expect_error(ErrorKind::kUse, {"q8_0"}, [] { Cache(config_of("gpt"), {.dtype = DType::kQ8_0}); });
}

}  // namespace
}  // namespace tril
