// Activation checkpointing changes what is kept, and not a bit of any gradient.
#include "tril/nn/checkpointing.h"

#include <gtest/gtest.h>

#include "tests/nn/model_fixture.h"
#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::Model;
using testing::RandomBatch;

constexpr Checkpointing kLevels[] = {Checkpointing::kNone, Checkpointing::kSelective, Checkpointing::kBlock};

TransformerConfig config_of(const std::string& name) {
  TransformerConfig config{
      .vocabulary = 33, .context = 24, .channels = 32, .layers = 3, .heads = 4, .dropout = 0.3f};
  config.set_architecture(name == "parallel" ? "llama" : name);
  if (name == "parallel") {
    config.kv_heads = 2;
    config.parallel_residual = true;
    config.attention.qk_norm = config.attention.sinks = true;
    config.attention.window = 9;
  }
  return config;
}

struct Gradients {
  double loss;
  std::vector<float> values;
};

// Two micro-batches of a packed batch in training, one after the other on the same memory.
Gradients gradients(const TransformerConfig& config, Checkpointing checkpointing) {
  Model model(config);
  RandomBatch data(2, 24, config.vocabulary);
  data.pack(10);
  ThreadPool pool(2);
  Session session(model.transformer, pool, 2, 24, /*backward=*/true, checkpointing);
  session.context().training = true;
  for (const uint64_t step : {0, 1}) {
    session.context().step = step;
    model.transformer.forward_backward(session.context(), data.batch, session.state());
  }
  return {*session.state().loss_sum, model.gradients()};
}

class CheckpointingOf : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, CheckpointingOf, ::testing::Values("gpt", "llama", "classic", "parallel"),
                         [](const auto& param_info) { return param_info.param; });

TEST_P(CheckpointingOf, GradientsAreTheSameBits) {
  const TransformerConfig config = config_of(GetParam());
  const Gradients all = gradients(config, Checkpointing::kNone);
  for (const Checkpointing level : {Checkpointing::kSelective, Checkpointing::kBlock}) {
    const Gradients recomputed = gradients(config, level);
    EXPECT_EQ(recomputed.loss, all.loss) << name_of(level);
    testing::expect_same_bits(std::string(name_of(level)), recomputed.values, all.values);
  }
}

// What is saved: of each layer everything; everything but the hidden layer; the stream, and the rest once.
TEST_P(CheckpointingOf, SavesWhatItSays) {
  const TransformerConfig config = config_of(GetParam());
  Model model(config);
  const auto saved = [&](Checkpointing level) {
    return session_bytes(model.transformer, 1, 2, 24, /*backward=*/true, level).saved;
  };
  Arena arena = Arena::dry();
  model.transformer.blocks[0]->mlp.plan(arena, 48);
  const int64_t hidden = arena.used();
  Arena one = Arena::dry();
  model.transformer.blocks[0]->plan(one, 2, 24, Checkpointing::kSelective);
  EXPECT_EQ(saved(Checkpointing::kNone) - saved(Checkpointing::kSelective), 3 * hidden);
  EXPECT_EQ(saved(Checkpointing::kSelective) - saved(Checkpointing::kBlock), 2 * one.used());
}

TEST(Checkpointing, ForwardAloneIsTheSameAtEveryLevel) {
  const TransformerConfig config = config_of("gpt");
  Model model(config);
  RandomBatch data(2, 24, config.vocabulary);
  SerialExecutor executor;
  std::vector<double> losses;
  for (const Checkpointing level : kLevels) {
    Session session(model.transformer, executor, 2, 24, /*backward=*/false, level);
    model.transformer.loss(session.context(), data.batch, session.state());
    losses.push_back(*session.state().loss_sum);
  }
  EXPECT_EQ(losses[0], losses[1]);
  EXPECT_EQ(losses[0], losses[2]);
}

TEST(Checkpointing, HasNames) {
  for (const Checkpointing level : kLevels) {
    Checkpointing read = Checkpointing::kNone;
    from_name(name_of(level), read);
    EXPECT_EQ(read, level);
  }
  Checkpointing untouched = Checkpointing::kBlock;
  testing::expect_error(ErrorKind::kUse, {"'all'", "none, selective or block"},
                        [&] { from_name("all", untouched); });
}

}  // namespace
}  // namespace tril
