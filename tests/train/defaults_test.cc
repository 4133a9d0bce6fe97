#include "tril/train/defaults.h"

#include <tuple>

#include "tests/train/small_run.h"
#include "tril/kernels/machine.h"

namespace tril {
namespace {

using testing::error_of;
using testing::expect_contains;

constexpr RunFacts kShakespeare = {
    .vocabulary = 65, .train_tokens = 1003854, .validation_tokens = 111540, .gflops = 250};

double seconds_of_step(const TrainOptions& o, const RunFacts& facts) {
  return model_config(o, facts.vocabulary).training_flops(o.batch, o.context) / (facts.gflops * 1e9);
}

TEST(Defaults, TokenizerFollowsTheText) {
  const auto choose = [](const TextFacts& text) {
    TrainOptions o;
    choose_tokenizer(o, text);
    return std::pair(o.tokenizer, o.vocab);
  };
  using Choice = std::pair<std::string, int64_t>;
  EXPECT_EQ(choose({.bytes = 1115394, .documents = 1, .distinct_characters = 65}), Choice("char", 0));
  EXPECT_EQ(choose({.bytes = 446213, .documents = 1, .distinct_characters = 257}), Choice("bpe", 1024));
  EXPECT_EQ(choose({.bytes = 100000000, .documents = 1, .distinct_characters = 90}), Choice("bpe", 4096));
  EXPECT_EQ(choose({.bytes = 2000000000, .documents = 9, .distinct_characters = 257}), Choice("bpe", 8192));
  TrainOptions o;
  o.vocab = 700;
  choose_tokenizer(o, {.bytes = 1000, .documents = 1, .distinct_characters = 20});
  EXPECT_EQ(o.tokenizer, "bpe");
  EXPECT_EQ(o.vocab, 700);
}

TEST(Defaults, TextFactsCountCharacters) {
  const std::vector<Document> documents = {{"a", "abcab"}, {"b", "äöa\n"}};
  const TextFacts facts = text_facts(documents);
  EXPECT_EQ(facts.bytes, 11);
  EXPECT_EQ(facts.documents, 2);
  EXPECT_EQ(facts.distinct_characters, 6);
}

TEST(Defaults, ShakespeareTakesMinutes) {
  TrainOptions o;
  o.context = 128;
  choose_sizes(o, kShakespeare);
  EXPECT_EQ(o.layers, 4);
  EXPECT_EQ(o.channels, 128);
  const double seconds = seconds_of_step(o, kShakespeare) * static_cast<double>(o.steps);
  EXPECT_GT(seconds, 30);  // at the full speed of the machine
  EXPECT_LT(seconds, 300);
  EXPECT_LT(seconds_of_step(o, kShakespeare), 0.2);
  EXPECT_GT(o.eval_every, 0);
  EXPECT_GT(o.eval_batches, 0);
  EXPECT_GT(o.save_every, 0);
  EXPECT_GT(o.sample_every, 0);
  EXPECT_GT(o.min_learning_rate, 0);
  EXPECT_GE(o.warmup, 0);
  EXPECT_EQ(o.head_size, 32);
}

TEST(Defaults, NoSamplesWhereNoneAreWanted) {
  TrainOptions o;
  o.sample_every = 0;
  choose_sizes(o, kShakespeare);
  EXPECT_EQ(o.sample_every, 0);
}

TEST(Defaults, SlowMachinesGetSmallModelsWithinTheTime) {
  for (const double gflops : {0.5, 5.0, 50.0, 250.0, 2000.0}) {
    RunFacts facts = kShakespeare;
    facts.gflops = gflops;
    TrainOptions o;
    choose_sizes(o, facts);
    EXPECT_LT(seconds_of_step(o, facts) * static_cast<double>(o.steps), 300) << gflops;
    EXPECT_GE(o.steps, 1) << gflops;
  }
}

TEST(Defaults, LargeTextGetsAtLeastTheModelOfASmallOne) {
  RunFacts facts = kShakespeare;
  facts.vocabulary = 4096;
  facts.train_tokens = 25000000;
  TrainOptions o;
  choose_sizes(o, facts);
  EXPECT_GE(o.channels, 96);
  EXPECT_GT(o.steps, 500);
  EXPECT_LT(o.eval_batches, 200);
}

TEST(Defaults, TinyTextIsNotReadForEver) {
  RunFacts facts = {.vocabulary = 30, .train_tokens = 2000, .validation_tokens = 200, .gflops = 250};
  TrainOptions o;
  choose_context(o, {.bytes = 2200, .documents = 1, .distinct_characters = 30});
  EXPECT_LE(o.context, 64);
  choose_sizes(o, facts);
  EXPECT_EQ(o.channels, 64);
  EXPECT_LE(o.steps, 200);
}

TEST(Defaults, GivenValuesWin) {
  TrainOptions o;
  o.layers = 3;
  o.heads = 7;
  o.context = 48;
  o.batch = 5;
  o.steps = 123;
  o.learning_rate = 0.5f;
  o.warmup = 0;
  o.eval_every = 11;
  o.min_learning_rate = 0;
  choose_sizes(o, kShakespeare);
  EXPECT_EQ(std::tuple(o.layers, o.heads, o.context, o.batch, o.steps, o.warmup, o.eval_every),
            std::tuple(3, 7, 48, 5, 123, 0, 11));
  EXPECT_EQ(o.learning_rate, 0.5f);
  EXPECT_EQ(o.min_learning_rate, 0);
  EXPECT_EQ(o.channels % 7, 0);

  TrainOptions wide;
  wide.channels = 200;
  choose_sizes(wide, kShakespeare);
  EXPECT_EQ(wide.channels, 200);
  EXPECT_EQ(200 % wide.heads, 0);

  TrainOptions grouped;
  grouped.kv_heads = 3;
  choose_sizes(grouped, kShakespeare);
  EXPECT_EQ(grouped.heads % 3, 0);
}

// Rotary positions turn pairs of features.
TEST(Defaults, HeadsAreOfEvenWidth) {
  for (const int64_t given : {0, 1, 3, 5, 7, 13}) {
    TrainOptions o;
    o.heads = given;
    choose_sizes(o, kShakespeare);
    EXPECT_EQ(o.head_size % 2, 0) << given;
  }
  for (const int64_t channels : {66, 90, 98, 250}) {
    TrainOptions o;
    o.channels = channels;
    choose_sizes(o, kShakespeare);
    EXPECT_EQ(o.head_size % 2, 0) << channels;
  }
}

TEST(Defaults, TheRateIsThatOfTheBlock) {
  const auto rate = [](const char* arch, float given) {
    TrainOptions o;
    if (*arch != 0) o.arch = arch;
    o.learning_rate = given;
    choose_sizes(o, kShakespeare);
    return o.learning_rate;
  };
  EXPECT_EQ(rate("", 0), 3e-3f);
  EXPECT_EQ(rate("gpt", 0), 1e-3f);
  EXPECT_EQ(rate("", 0.25f), 0.25f);
  TrainOptions wide;
  wide.channels = 256;
  choose_sizes(wide, kShakespeare);
  EXPECT_EQ(wide.learning_rate, 1.5e-3f);
}

TEST(Defaults, LengthInTokens) {
  RunFacts facts = kShakespeare;
  facts.total_tokens = 100000;
  TrainOptions o;
  choose_sizes(o, facts);
  EXPECT_EQ(o.steps, divide_up(100000, o.batch * o.context));
}

int64_t planned(const TrainOptions& o, const RunFacts& facts) {
  return Trainer::plan_memory(model_config(o, facts.vocabulary).resolved(), o, facts.threads).total();
}

TrainOptions middle_sizes() {
  TrainOptions o;
  o.layers = 4;
  o.heads = 4;
  o.channels = 64;
  o.context = 64;
  return o;
}

TEST(Defaults, MemoryKeepsTheTokensOfAStep) {
  RunFacts facts = kShakespeare;
  TrainOptions all = middle_sizes();
  choose_sizes(all, facts);
  EXPECT_EQ(all.checkpointing, "none");
  EXPECT_EQ(all.accumulate, 1);
  const int64_t most = planned(all, facts);
  for (const int64_t percent : {100, 80, 60, 45, 30, 20}) {
    facts.memory = most * percent / 100;
    TrainOptions o = middle_sizes();
    choose_sizes(o, facts);
    EXPECT_LE(planned(o, facts), facts.memory) << percent;
    EXPECT_EQ(o.batch * o.accumulate, all.batch) << percent;
    if (percent == 100) {
      EXPECT_EQ(o.batch, all.batch);
    }
  }
}

TEST(Defaults, MemoryLeavesWhatIsGiven) {
  RunFacts facts = kShakespeare;
  facts.memory = 1;  // nothing fits
  TrainOptions batch = middle_sizes();
  batch.batch = 32;
  choose_sizes(batch, facts);
  EXPECT_EQ(std::tuple(batch.batch, batch.accumulate, batch.checkpointing), std::tuple(32, 1, "block"));
  TrainOptions level = middle_sizes();
  level.checkpointing = "none";
  choose_sizes(level, facts);
  EXPECT_EQ(level.checkpointing, "none");
  EXPECT_EQ(level.batch, 1);  // what takes least
}

TEST(Defaults, MemoryLimitsTheSize) {
  RunFacts facts = kShakespeare;
  facts.train_tokens = 1'000'000'000;
  facts.seconds = 1e5;
  TrainOptions large;
  EXPECT_NE(choose_sizes(large, facts), SizeLimit::kMemory);
  facts.memory = 50'000'000;
  TrainOptions small;
  EXPECT_EQ(choose_sizes(small, facts), SizeLimit::kMemory);
  EXPECT_LT(small.channels, large.channels);
  EXPECT_LE(planned(small, facts), facts.memory);
}

TEST(Defaults, ImpossibleSizesAreRefusedWithNearOnes) {
  TrainOptions o;
  o.channels = 128;
  o.heads = 3;
  const std::string message = error_of(ErrorKind::kUse, [&] { choose_sizes(o, kShakespeare); });
  for (const char* part : {"128", "3", "4", "126", "129"}) expect_contains(message, part);
}

TEST(Presets, HaveTheShapesOfTheBenchmarks) {
  const auto shape = [](std::string_view name) {
    const Preset& p = find_preset(name);
    const TransformerConfig c = model_config(p.options, p.vocabulary).resolved();
    return std::tuple(c.layers, c.heads, c.channels, c.context, c.vocabulary, p.options.batch, c.qkv_bias,
                      c.tied_head);
  };
  EXPECT_EQ(shape("gpt2-b4t64"), std::tuple(12, 12, 768, 64, 50257, 4, true, true));
  EXPECT_EQ(shape("gpt2-b4t256"), std::tuple(12, 12, 768, 256, 50257, 4, true, true));
  EXPECT_EQ(shape("gpt2-b4t1024"), std::tuple(12, 12, 768, 1024, 50257, 4, true, true));
  EXPECT_EQ(shape("char-6x384"), std::tuple(6, 6, 384, 256, 65, 64, false, true));
  EXPECT_EQ(shape("char-4x128"), std::tuple(4, 4, 128, 64, 65, 12, false, true));
  EXPECT_EQ(shape("adder-2x64"), std::tuple(2, 4, 64, 32, 14, 128, false, true));
  EXPECT_EQ(shape("names-1x16"), std::tuple(1, 4, 16, 16, 27, 32, false, true));
  EXPECT_EQ(shape("seed-13m"), std::tuple(1, 8, 128, 128, 50304, 32, false, false));
  EXPECT_EQ(shape("story-8x512"), std::tuple(8, 8, 512, 512, 4096, 8, false, true));
  const TrainOptions& o = find_preset("shakespeare-char-cpu").options;
  EXPECT_EQ(std::tuple(o.steps, o.learning_rate, o.min_learning_rate, o.warmup, o.beta2, o.dropout),
            std::tuple(2000, 1e-3f, 1e-4f, 100, 0.99f, 0.0f));
  expect_contains(error_of(ErrorKind::kUse, [] { find_preset("gpt3"); }), "char-4x128");
}

}  // namespace
}  // namespace tril
