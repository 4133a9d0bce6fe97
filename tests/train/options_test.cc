#include "tril/train/options.h"

#include <cmath>
#include <limits>

#include "tests/train/small_run.h"

namespace tril {
namespace {

using testing::error_of;
using testing::expect_contains;

TEST(Schedule, WarmsUpThenFollowsTheCosine) {
  TrainOptions o;
  o.learning_rate = 1e-3f;
  o.min_learning_rate = 1e-4f;
  o.warmup = 10;
  o.steps = 111;
  EXPECT_FLOAT_EQ(learning_rate_at(o, 0), 1e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 4), 5e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 9), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 10), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 60), 5.5e-4f);  // half way
  EXPECT_FLOAT_EQ(learning_rate_at(o, 35), static_cast<float>(1e-4 + 9e-4 * 0.5 * (1 + std::sqrt(0.5))));
  EXPECT_FLOAT_EQ(learning_rate_at(o, 110), 1e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 5000), 1e-4f);
}

TEST(Schedule, ConstantStaysAfterTheWarmUp) {
  TrainOptions o;
  o.schedule = "constant";
  o.learning_rate = 2e-3f;
  o.warmup = 2;
  o.steps = 10;
  EXPECT_FLOAT_EQ(learning_rate_at(o, 0), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 1), 2e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 9), 2e-3f);
}

TrainOptions schedule(const std::string& name, int64_t warmup, int64_t steps) {
  TrainOptions o;
  o.schedule = name;
  o.learning_rate = 1e-3f;
  o.min_learning_rate = 2e-4f;
  o.warmup = warmup;
  o.steps = steps;
  return o;
}

TEST(Schedule, LinearFromTheFirstToTheLastStep) {
  const TrainOptions o = schedule("linear", 4, 21);  // 16 steps down
  EXPECT_FLOAT_EQ(learning_rate_at(o, 1), 5e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 4), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 8), 8e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 12), 6e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 20), 2e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 21), 2e-4f);
}

TEST(Schedule, WsdStaysAndDecaysAtTheEnd) {
  const TrainOptions o = schedule("wsd", 4, 40);  // the last 8 decay
  EXPECT_FLOAT_EQ(learning_rate_at(o, 0), 2.5e-4f);
  for (const int64_t step : {4, 20, 31}) EXPECT_EQ(learning_rate_at(o, step), 1e-3f) << step;
  EXPECT_FLOAT_EQ(learning_rate_at(o, 32), 9e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 35), 6e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 39), 2e-4f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 50), 2e-4f);
}

TEST(Schedule, WsdOfAnyFraction) {
  TrainOptions o = schedule("wsd", 4, 40);
  o.decay_fraction = 0;
  EXPECT_EQ(learning_rate_at(o, 39), 1e-3f);
  o.decay_fraction = 1;  // begins where the warm-up ends: 36 steps, from just below the highest
  EXPECT_EQ(learning_rate_at(o, 3), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 4), static_cast<float>(1e-3 - 8e-4 / 36));
  EXPECT_FLOAT_EQ(learning_rate_at(o, 39), 2e-4f);
  o.decay_fraction = 0.025f;  // the last step alone
  EXPECT_EQ(learning_rate_at(o, 38), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(o, 39), 2e-4f);
  o.steps = 1, o.warmup = 0, o.decay_fraction = 0.2f;
  EXPECT_EQ(learning_rate_at(o, 0), 1e-3f);
}

// What makes a run longer does not change the steps it has made, as long as wsd has not begun to decay.
TEST(Schedule, MoreStepsLeaveTheStableOnesAsTheyWere) {
  const TrainOptions o = schedule("wsd", 4, 40), longer = schedule("wsd", 4, 100);
  for (int64_t step = 0; step < 32; ++step)
    EXPECT_EQ(learning_rate_at(o, step), learning_rate_at(longer, step)) << step;
  EXPECT_EQ(learning_rate_at(longer, 79), 1e-3f);
  EXPECT_FLOAT_EQ(learning_rate_at(longer, 99), 2e-4f);
}

TEST(Schedule, OneStepAndNoWarmUp) {
  TrainOptions o;
  o.learning_rate = 1e-3f;
  o.warmup = 0;
  o.steps = 1;
  EXPECT_FLOAT_EQ(learning_rate_at(o, 0), 1e-3f);
}

TEST(OptionsJson, KeepsEveryValue) {
  TrainOptions o = testing::small_options();
  o.activation = "gelu";
  o.qkv_bias = "true";
  o.tokenizer = "a \"quoted\" path/tokenizer.json";
  o.dropout = 0.1f;
  o.epsilon = 1e-8f;
  o.val_fraction = 0.07;
  o.decay_all = true;
  o.arch = "llama", o.norm = "layer", o.rope_scaling = "yarn", o.rope_factor = 2.5f, o.document_mask = true;
  o.z_loss = 1e-4f, o.tied_head = "false", o.window = 12;
  o.seed = 18446744073709551615u;
  const std::string json = options_to_json(o);
  expect_contains(json, "\"learning-rate\": 0.003");
  expect_contains(json, "\"dropout\": 0.1,");
  TrainOptions back;
  options_from_json(json, "test", back);
  EXPECT_TRUE(compare_options(o, back).empty());
  EXPECT_EQ(back.seed, o.seed);
  EXPECT_EQ(back.dropout, o.dropout);
  EXPECT_EQ(back.tokenizer, o.tokenizer);
}

TEST(OptionsJson, LeavesWhatItDoesNotName) {
  TrainOptions o = testing::small_options();
  options_from_json("{\"layers\": 7}", "test", o);
  EXPECT_EQ(o.layers, 7);
  EXPECT_EQ(o.heads, 3);
}

TEST(OptionsJson, RefusesByName) {
  TrainOptions o;
  expect_contains(error_of(ErrorKind::kUse, [&] { options_from_json("{\"layer\": 7}", "run.json", o); }),
                  "run.json: unknown option \"layer\"");
  for (const char* wrong : {"{\"layers\": \"7\"}", "{\"layers\": 1.5}", "{\"layers\": null}",
                            "{\"layers\": 1e30}", "{\"layers\": 18446744073709551615}"}) {
    expect_contains(error_of(ErrorKind::kUse, [&] { options_from_json(wrong, "run.json", o); }),
                    "\"layers\"");
  }
  expect_contains(error_of(ErrorKind::kUse, [&] { options_from_json("{\"seed\": -1}", "run.json", o); }),
                  "\"seed\"");
  expect_contains(error_of(ErrorKind::kUse, [&] { options_from_json("[1]", "run.json", o); }), "run.json");
  EXPECT_EQ(o.layers, 0);
}

TEST(CompareOptions, SaysWhatDiffersAndWhetherItMatters) {
  TrainOptions there = testing::small_options(), here = there;
  here.layers = 6;
  here.keep = 5;
  const auto differences = compare_options(there, here);
  ASSERT_EQ(differences.size(), 2u);
  EXPECT_EQ(differences[0].name + differences[0].there + differences[0].here, "layers26");
  EXPECT_TRUE(differences[0].exact_resume);
  EXPECT_EQ(differences[1].name + differences[1].there + differences[1].here, "keep25");
  EXPECT_FALSE(differences[1].exact_resume);
}

TEST(CheckOptions, NamesTheOptionAndItsValue) {
  const auto message = [](auto change) {
    TrainOptions o = testing::small_options();
    change(o);
    return error_of(ErrorKind::kUse, [&] { check_options(o); });
  };
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  expect_contains(message([](TrainOptions& o) { o.dropout = 1; }), "--dropout is 1");
  expect_contains(message([](TrainOptions& o) { o.dropout = kNaN; }), "--dropout is nan");
  expect_contains(message([](TrainOptions& o) { o.learning_rate = -1; }), "--learning-rate is -1");
  expect_contains(message([](TrainOptions& o) { o.learning_rate = kNaN; }), "--learning-rate is nan");
  expect_contains(message([](TrainOptions& o) { o.clip = kNaN; }), "--clip is nan");
  expect_contains(message([](TrainOptions& o) { o.beta2 = 1; }), "--beta2 is 1");
  expect_contains(message([](TrainOptions& o) { o.layers = -3; }), "--layers is -3");
  expect_contains(message([](TrainOptions& o) { o.accumulate = 0; }), "--accumulate is 0");
  expect_contains(message([](TrainOptions& o) { o.keep = 0; }), "--keep is 0");
  expect_contains(message([](TrainOptions& o) { o.schedule = "step"; }),
                  "--schedule is 'step'; give one of cosine, linear, constant, wsd");
  expect_contains(message([](TrainOptions& o) { o.decay_fraction = 1.5f; }), "--decay-fraction is 1.5");
  expect_contains(message([](TrainOptions& o) { o.save_minutes = -1; }), "--save-minutes is -1");
  expect_contains(message([](TrainOptions& o) { o.patience = -1; }), "--patience is -1");
  expect_contains(message([](TrainOptions& o) { o.max_skipped = -1; }), "--max-skipped is -1");
  expect_contains(message([](TrainOptions& o) { o.final_model = "first"; }), "--final-model is 'first'");
  expect_contains(message([](TrainOptions& o) { o.val_fraction = 0, o.patience = 3; }), "--patience");
  expect_contains(message([](TrainOptions& o) { o.val_fraction = 0, o.final_model = "best"; }),
                  "--final-model");
  expect_contains(message([](TrainOptions& o) { o.val_fraction = 1; }), "--val-fraction is 1");
  EXPECT_NO_THROW(check_options(testing::small_options()));
  EXPECT_NO_THROW(check_options({}));
}

TEST(ModelConfig, FollowsTheOptions) {
  TrainOptions o = testing::small_options();
  o.arch = "classic";
  EXPECT_FALSE(model_config(o, 17).qkv_bias);
  EXPECT_EQ(model_config(o, 17).activation, Activation::kRelu);
  o.qkv_bias = "true";
  o.activation = "gelu";
  EXPECT_TRUE(model_config(o, 17).qkv_bias);
  EXPECT_EQ(model_config(o, 17).activation, Activation::kGeluErf);
  EXPECT_EQ(model_config(o, 17).vocabulary, 17);
}

TEST(ModelConfig, HasEveryVariantOfTheBlock) {
  TrainOptions o = testing::small_options();
  o.arch = "custom";
  EXPECT_EQ(model_config(o, 17).architecture(), "gpt");
  o.arch = "llama";
  TransformerConfig expected = model_config(o, 17);
  EXPECT_EQ(expected.architecture(), "llama");
  o.activation = "geglu", o.norm = "layer", o.norm_epsilon = 1e-6f, o.positions = "rope", o.rope_base = 500;
  o.rope_size = 2, o.rope_interleaved = true, o.rope_scaling = "llama3", o.rope_factor = 4;
  o.rope_original_context = 32, o.window = 9, o.softcap = 30, o.qk_norm = o.sinks = true, o.scale = 0.5f;
  o.parallel_residual = true, o.logit_softcap = 15, o.qkv_bias = o.mlp_bias = "true", o.tied_head = "false";
  o.lm_head_bias = o.norm_bias = o.projection_bias = "true", o.z_loss = 1e-4f;
  expected.activation = Activation::kGeGlu;
  expected.norm = {NormKind::kLayer, 1e-6f};
  expected.attention = {.positions = Positions::kRope,
                        .rope = {.base = 500,
                                 .size = 2,
                                 .interleaved = true,
                                 .scaling = RopeScaling::kLlama3,
                                 .factor = 4,
                                 .original_context = 32},
                        .window = 9,
                        .softcap = 30,
                        .qk_norm = true,
                        .sinks = true};
  expected.scale = 0.5f, expected.parallel_residual = true, expected.logit_softcap = 15,
  expected.z_loss = 1e-4f;
  expected.qkv_bias = expected.projection_bias = expected.mlp_bias = expected.norm_bias = true;
  expected.tied_head = false, expected.lm_head_bias = true;
  EXPECT_TRUE(model_config(o, 17) == expected);
  EXPECT_EQ(expected.architecture(), "custom");
  EXPECT_NO_THROW(check_options(o));
}

TEST(ModelConfig, GivesTheOptionsBack) {
  std::vector<TransformerConfig> configs;
  for (const char* arch : {"gpt", "llama", "classic"}) {
    TrainOptions o = testing::small_options();
    o.arch = arch;
    configs.push_back(testing::small_config(o));
  }
  TrainOptions o = testing::small_options();
  o.arch = "llama", o.window = 9, o.softcap = 30, o.logit_softcap = 15, o.scale = 0.5f;
  o.qk_norm = o.sinks = o.parallel_residual = o.rope_interleaved = true;
  o.rope_base = 500, o.rope_size = 4, o.rope_scaling = "yarn", o.rope_factor = 4, o.rope_original_context = 8;
  o.mlp_bias = "true", o.tied_head = "false", o.lm_head_bias = "true", o.norm_epsilon = 1e-6f;
  configs.push_back(testing::small_config(o));
  for (const TransformerConfig& config : configs) {
    TrainOptions back;
    set_model_options(config, back);
    EXPECT_TRUE(model_config(back, 17).resolved() == config) << options_to_json(back);
    EXPECT_EQ(back.arch, config.architecture());
    EXPECT_NO_THROW(check_options(back));
  }
}

TEST(CheckOptions, RopeOptionsNeedRope) {
  TrainOptions o = testing::small_options();
  o.rope_base = 500000;
  expect_contains(error_of(ErrorKind::kUse, [&] { check_options(o); }), "add --positions rope");
  o.arch = "llama";
  EXPECT_NO_THROW(check_options(o));
  o.positions = "alibi";
  expect_contains(error_of(ErrorKind::kUse, [&] { check_options(o); }), "the positions are alibi");
}

}  // namespace
}  // namespace tril
