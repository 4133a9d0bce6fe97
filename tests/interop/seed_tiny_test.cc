// A model of the tutorial's PyTorch program, from its own file: logits, gradients and fifty steps of training
// as PyTorch computed them.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/interop/interop_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_data.h"
#include "tril/interop/model_folder.h"
#include "tril/interop/torch_checkpoint.h"
#include "tril/train/trainer.h"

namespace tril {
namespace {

using testing::elements;

class SeedTiny : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto folder = testing::test_data("models/seed-tiny");
    if (!folder) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
    folder_ = *folder;
    state_ = std::make_unique<SafetensorsFile>(folder_ / "state.safetensors");
    config_ = tutorial_config(stored(folder_ / "state.safetensors"));
  }
  static StoredArrays stored(const Path& path) {
    return stored_arrays(std::make_shared<const SafetensorsFile>(path));
  }
  static void load(const StoredArrays& state, const Parameters& parameters, const TransformerConfig& config) {
    const Layout layout = tutorial_layout(config);
    check_weights(state, layout, config);
    read_weights(state, layout, parameters);
  }
  void expect_logits(const StoredArrays& state, const char* golden) const {
    const TransformerConfig config = tutorial_config(state);
    const LoadedModel loaded =
        testing::load({.config = config, .layout = tutorial_layout(config), .arrays = state});
    testing::expect_golden_logits(*loaded.model, folder_ / golden);
  }
  SafetensorsFile file(const char* name) const { return SafetensorsFile(folder_ / name); }

  // Fifty steps, as the program that made the curve was told.
  static TrainOptions curve_options() {
    TrainOptions o;
    o.arch = "classic";
    o.steps = 50;
    o.batch = 4;
    o.learning_rate = 1e-3f;
    o.schedule = "constant";
    o.warmup = 0;
    o.beta1 = 0.9f;
    o.beta2 = 0.95f;
    o.epsilon = 1e-8f;
    o.weight_decay = 0.1f;
    o.decay_all = true;
    o.clip = 1.0f;
    return o;
  }

  Path folder_;
  std::unique_ptr<SafetensorsFile> state_;
  TransformerConfig config_;
};

// The curve's batches: inputs and targets overlap in rows of T + 1.
struct CurveBatch {
  std::vector<int32_t> tokens, targets;
  Batch batch;

  CurveBatch(const NamedArray& batches, int64_t index) {
    const int64_t rows = batches.shape[1], width = batches.shape[2];
    const int32_t* from = elements<int32_t>(batches).data() + index * rows * width;
    for (int64_t r = 0; r < rows; ++r, from += width) {
      tokens.insert(tokens.end(), from, from + width - 1);
      targets.insert(targets.end(), from + 1, from + width);
    }
    batch = {.batch = rows, .time = width - 1, .tokens = tokens.data(), .targets = targets.data()};
    batch.counted_targets = batch.rows();
  }
};

TEST_F(SeedTiny, ShapeIsReadFromTheTensors) {
  EXPECT_EQ(config_.architecture(), "classic");
  EXPECT_EQ(config_.vocabulary, 256);
  EXPECT_EQ(config_.context, 32);
  EXPECT_EQ(config_.channels, 48);
  EXPECT_EQ(config_.heads, 4);
  EXPECT_EQ(config_.head_size, 12);
  EXPECT_EQ(config_.layers, 2);
  EXPECT_EQ(config_.mlp_hidden, 192);
}

TEST_F(SeedTiny, Logits) {
  expect_logits(stored(folder_ / "state.safetensors"), "golden_logits.safetensors");
}

TEST_F(SeedTiny, WithoutOutputProjectionItIsTheIdentity) {
  std::vector<NamedView> kept;
  for (const NamedArray& array : state_->arrays()) {
    if (array.dtype != "F32" || array.name.find(".attn.proj.") != std::string::npos) continue;
    const Shape shape =
        array.shape.size() == 1 ? Shape{array.shape[0]} : Shape{array.shape[0], array.shape[1]};
    kept.push_back({"module." + array.name, state_->f32(array.name, shape)});
  }
  const testing::TemporaryDirectory directory;
  write_safetensors(directory / "old.safetensors", kept);
  expect_logits(stored(directory / "old.safetensors"), "old_without_proj_logits.safetensors");
}

// |ours - theirs| against |theirs|, both as vectors.
void expect_near_tensor(const std::string& name, const float* ours, const ConstView& theirs) {
  double difference = 0, norm = 0;
  for (int64_t i = 0; i < theirs.elements(); ++i) {
    const double x = theirs.f32()[i], d = ours[i] - x;
    difference += d * d;
    norm += x * x;
  }
  ASSERT_GT(norm, 0) << name;
  EXPECT_LT(std::sqrt(difference / norm), 1e-5) << name;
}

TEST_F(SeedTiny, GradientsUnderTheTutorialsNames) {
  const SafetensorsFile golden = file("golden_gradients.safetensors"),
                        curve = file("golden_curve.safetensors");
  Transformer model(config_);
  Parameters parameters(model);
  load(stored(folder_ / "state.safetensors"), parameters, config_);
  SerialExecutor executor;
  Session<Transformer> session(model, executor, 4, 32);
  const CurveBatch first(curve.get("batches"), 0);
  model.forward_backward(session.context(), first.batch, session.state());
  EXPECT_NEAR(*session.state().loss_sum / 128, elements<double>(curve.get("first_loss_double"))[0], 1e-6);

  size_t compared = 0;
  const auto compare = [&](const std::string& name, const float* ours, const Shape& shape) {
    expect_near_tensor(name, ours, golden.f32(name, shape));
    ++compared;
  };
  const auto gradient = [&](const std::string& name) { return parameters.find(name).gradient; };
  const auto whole = [&](const std::string& theirs, const std::string& name) {
    compare(theirs, gradient(name).f32(), gradient(name).shape);
  };
  whole("token_embed.weight", "token_embedding.weight");
  whole("position_embed.weight", "position_embedding.weight");
  for (int layer = 0; layer < 2; ++layer) {
    const std::string a = fmt::format("attn_blocks.{}.", layer), b = fmt::format("blocks.{}.", layer);
    for (const char* kind : {"weight", "bias"}) {
      whole(a + "ln1." + kind, b + "ln1." + kind);
      whole(a + "ln2." + kind, b + "ln2." + kind);
      whole(a + "attn.proj." + kind, b + "attention.projection." + kind);
      whole(a + "mlp.hidden." + kind, b + "mlp.hidden." + kind);
      whole(a + "mlp.proj." + kind, b + "mlp.projection." + kind);
    }
    const float* rows = gradient(b + "attention.qkv.weight").f32();  // query, key, value; in each, by head
    for (const char* what : {"query", "key", "value"}) {
      for (int head = 0; head < 4; ++head, rows += 12 * 48)
        compare(fmt::format("{}attn.heads.{}.{}.weight", a, head, what), rows, {12, 48});
    }
  }
  for (const char* kind : {"weight", "bias"}) {
    whole(std::string("layer_norm.") + kind, std::string("ln_final.") + kind);
    whole(std::string("lm_head.") + kind, std::string("lm_head.") + kind);
  }
  EXPECT_EQ(compared, golden.arrays().size());
}

TEST_F(SeedTiny, FiftyStepsFollowTheCurve) {
  const SafetensorsFile curve = file("golden_curve.safetensors");
  const Corpus none;
  ThreadPool pool(2);
  Trainer trainer(config_, curve_options(), none, pool);
  load(stored(folder_ / "state.safetensors"), trainer.parameters(), config_);
  const ConstView losses = curve.f32("losses", {50});
  for (int64_t i = 0; i < 50; ++i) {
    const CurveBatch batch(curve.get("batches"), i);
    const double loss = trainer.step_on({&batch.batch, 1}).loss;
    ASSERT_NEAR(loss, losses.f32()[i], 1e-4 * losses.f32()[i]) << "step " << i;
  }
  EXPECT_LT(losses.f32()[49], 0.95f * losses.f32()[0]);
}

TEST_F(SeedTiny, WhatDoesNotBelongIsNamed) {
  TransformerConfig other = config_;
  other.mlp_hidden = 100;
  Transformer model(other);
  Parameters parameters(model, Parameters::Memory::kValues);
  testing::expect_error(ErrorKind::kData, {"mlp.hidden.weight"},
                        [&] { load(stored(folder_ / "state.safetensors"), parameters, other); });
}

}  // namespace
}  // namespace tril
