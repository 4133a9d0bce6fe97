#include "tril/nn/transformer.h"

#include <gtest/gtest.h>

#include "tests/nn/model_fixture.h"
#include "tests/reference/transformer.h"
#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::Dual;
using testing::expect_error;
using testing::Model;
using testing::RandomBatch;
using testing::ReferenceTransformer;

struct Case {
  const char* name;
  TransformerConfig config;
  bool packed = false;  // documents, and padding at the end
  bool prefix = false;
  friend std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }
};

std::vector<Case> cases() {
  TransformerConfig gpt{.vocabulary = 11, .context = 8, .channels = 12, .layers = 2, .heads = 3};
  gpt.set_architecture("gpt");
  TransformerConfig classic = gpt;
  classic.set_architecture("classic");
  TransformerConfig odd = gpt;  // shared key/value heads, a head size of its own, no norm bias, another scale
  odd.heads = 4, odd.kv_heads = 2, odd.head_size = 5, odd.mlp_hidden = 7, odd.norm_bias = false,
  odd.scale = 0.7f;
  TransformerConfig llama = gpt;
  llama.set_architecture("llama");
  llama.mlp_hidden = 10;
  TransformerConfig everything = llama;  // every variant of attention and of the block at once
  everything.heads = 4, everything.kv_heads = 2, everything.head_size = 6;
  everything.attention = {.positions = Positions::kRope,
                          .rope = {.base = 100, .size = 4, .interleaved = true},
                          .window = 3,
                          .softcap = 2,
                          .qk_norm = true,
                          .sinks = true};
  everything.norm.epsilon = 1e-3f;
  everything.parallel_residual = true;
  everything.tied_head = false, everything.lm_head_bias = true;
  everything.qkv_bias = everything.projection_bias = everything.mlp_bias = everything.norm_bias = true;
  everything.logit_softcap = 3, everything.z_loss = 0.1f, everything.label_smoothing = 0.2f;
  TransformerConfig alibi = classic;
  alibi.heads = 4;
  alibi.attention.positions = Positions::kAlibi;
  alibi.activation = Activation::kGeGlu;
  TransformerConfig none = llama;
  none.attention.positions = Positions::kNone;
  none.attention.qk_norm = true;
  none.activation = Activation::kSilu;
  return {{"gpt", gpt},
          {"classic", classic},
          {"odd", odd},
          {"packed", gpt, true},
          {"llama", llama},
          {"llama_packed", llama, true},
          {"alibi", alibi},
          {"alibi_packed", alibi, true},
          {"none", none},
          {"prefix", llama, false, true},
          {"everything", everything, true, true}};
}

RandomBatch batch_of(const Case& c, int64_t time, int32_t first_document) {
  RandomBatch data(2, time, 11);
  if (c.packed) data.pack(first_document);
  if (c.prefix) data.see_prefix({2, 0});
  return data;
}

class TransformerCase : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(All, TransformerCase, ::testing::ValuesIn(cases()),
                         [](const auto& param_info) { return std::string(param_info.param.name); });

TEST_P(TransformerCase, LogitsMatchReference) {
  Model model(GetParam().config);
  RandomBatch data = batch_of(GetParam(), 7, 3);
  SerialExecutor executor;
  Session session(model.transformer, executor, 2, 7, /*backward=*/false);
  Tensor logits({14, 11});
  model.transformer.logits(session.context(), data.batch, session.state(), logits);

  std::vector<double> exact;
  std::vector<float> naive;
  for (const auto& row :
       ReferenceTransformer<double>(GetParam().config, model.values<double>()).logits(data.batch)) {
    exact.insert(exact.end(), row.begin(), row.end());
  }
  for (const auto& row :
       ReferenceTransformer<float>(GetParam().config, model.values<float>()).logits(data.batch)) {
    naive.insert(naive.end(), row.begin(), row.end());
  }
  testing::expect_within_naive("logits", {logits.f32(), exact.size()}, exact, naive, 2);

  Tensor last({2, 11});
  model.transformer.logits(session.context(), data.batch, session.state(), last, /*last_only=*/true);
  const std::vector<double> exact_last = [&] {
    std::vector<double> out(exact.begin() + 6 * 11, exact.begin() + 7 * 11);
    out.insert(out.end(), exact.begin() + 13 * 11, exact.end());
    return out;
  }();
  for (size_t i = 0; i < exact_last.size(); ++i) EXPECT_NEAR(last.f32()[i], exact_last[i], 1e-4);
}

// Every gradient against the complex step of the double reference; the bound is the error of forward-mode
// float.
TEST_P(TransformerCase, GradientsMatchComplexStep) {
  Model model(GetParam().config);
  RandomBatch data = batch_of(GetParam(), 5, 2);
  const double z_loss = GetParam().config.z_loss, smoothing = GetParam().config.label_smoothing;
  ThreadPool pool(2);
  Session session(model.transformer, pool, 2, 5);
  model.transformer.forward_backward(session.context(), data.batch, session.state());

  const double exact_loss =
      ReferenceTransformer<double>(GetParam().config, model.values<double>()).loss(data.batch);
  EXPECT_NEAR(*session.state().loss_sum / static_cast<double>(data.batch.counted_targets), exact_loss, 1e-5);

  auto complex_values = model.values<std::complex<double>>();
  auto dual_values = model.values<Dual<float>>();
  for (const auto& item : model.parameters.items()) {
    const std::string& name = item.info.name;
    std::vector<double> exact;
    std::vector<float> naive;
    for (size_t i = 0; i < complex_values[name].size(); ++i) {
      if (i % 3 != 0 && complex_values[name].size() > 60) continue;  // a third of the large ones
      const auto before = complex_values[name][i];
      complex_values[name][i] += std::complex<double>(0, 1e-30);
      dual_values[name][i].slope = 1;
      exact.push_back(ReferenceTransformer<std::complex<double>>(GetParam().config, complex_values)
                          .loss(data.batch, z_loss, smoothing)
                          .imag() /
                      1e-30);
      naive.push_back(ReferenceTransformer<Dual<float>>(GetParam().config, dual_values)
                          .loss(data.batch, z_loss, smoothing)
                          .slope);
      complex_values[name][i] = before;
      dual_values[name][i].slope = 0;
    }
    std::vector<float> actual;
    for (size_t i = 0; i < complex_values[name].size(); ++i) {
      if (i % 3 != 0 && complex_values[name].size() > 60) continue;
      actual.push_back(item.weight->gradient.f32()[i]);
    }
    testing::expect_within_naive(name, actual, exact, naive, 3, /*magnitude=*/1);
  }
}

// Changing token j leaves the logits before j as they were, bit for bit; and losses before j send nothing to
// it.
TEST(Transformer, CausalExactly) {
  TransformerConfig config{.vocabulary = 40, .context = 24, .channels = 32, .layers = 2, .heads = 4};
  config.set_architecture("classic");
  Model model(config);
  ThreadPool pool(2);
  for (const int64_t time : {1, 5, 24}) {
    RandomBatch data(1, time, 20);
    Session session(model.transformer, pool, 1, time);
    Tensor before({time, 40}), after({time, 40});
    model.transformer.logits(session.context(), data.batch, session.state(), before);
    for (int64_t j = 0; j < time; ++j) {
      const int32_t old = std::exchange(data.tokens[static_cast<size_t>(j)], 33);
      model.transformer.logits(session.context(), data.batch, session.state(), after);
      for (int64_t i = 0; i < j * 40; ++i) ASSERT_EQ(before.f32()[i], after.f32()[i]) << "token " << j;
      ASSERT_NE(before.f32()[j * 40], after.f32()[j * 40]);

      // Token 33 stands only at j; only targets before j count.
      data.mask.assign(static_cast<size_t>(time), 0);
      std::fill_n(data.mask.begin(), j, 1);
      data.batch.loss_mask = data.mask.data();
      model.parameters.zero_gradients();
      model.transformer.forward_backward(session.context(), data.batch, session.state());
      const float* const gradient = model.transformer.token_embedding.gradient.f32();
      testing::expect_all_zero("gradient of a later token", {gradient + 33 * 32, 32});
      if (j > 0) {
        ASSERT_NE(gradient[data.tokens[0] * 32], 0.0f);
      }
      data.batch.loss_mask = nullptr;
      data.tokens[static_cast<size_t>(j)] = old;
    }
  }
}

TEST(Transformer, SameBitsForAnyNumberOfThreads) {
  TransformerConfig config{
      .vocabulary = 65, .context = 48, .channels = 64, .layers = 2, .heads = 4, .dropout = 0.2f};
  config.set_architecture("gpt");
  RandomBatch data(3, 48, 65);
  std::vector<float> first;
  double first_loss = 0;
  for (const int threads : {1, 2, 3, 4}) {
    Model model(config);
    ThreadPool pool(threads);
    Session session(model.transformer, pool, 3, 48);
    session.context().training = true;
    model.transformer.forward_backward(session.context(), data.batch, session.state());
    if (threads == 1) {
      first = model.gradients();
      first_loss = *session.state().loss_sum;
      continue;
    }
    EXPECT_EQ(first_loss, *session.state().loss_sum);
    testing::expect_same_bits("gradients", first, model.gradients());
  }
}

TEST(Transformer, DropoutOnlyInTraining) {
  TransformerConfig config{.vocabulary = 20, .context = 8, .channels = 16, .layers = 1, .heads = 2};
  config.set_architecture("gpt");
  RandomBatch data(2, 8, 20);
  SerialExecutor executor;
  const auto loss = [&](float dropout, bool training, uint64_t step) {
    config.dropout = dropout;
    Model model(config);
    Session session(model.transformer, executor, 2, 8);
    session.context().training = training;
    session.context().step = step;
    model.transformer.loss(session.context(), data.batch, session.state());
    return *session.state().loss_sum;
  };
  EXPECT_EQ(loss(0.5f, false, 0), loss(0, false, 0));
  EXPECT_EQ(loss(0.5f, false, 0), loss(0.5f, false, 1));
  EXPECT_NE(loss(0.5f, true, 0), loss(0.5f, true, 1));
  EXPECT_EQ(loss(0.5f, true, 1), loss(0.5f, true, 1));
}

// With dropout the gradient is that of the masked network: central differences along a random direction.
TEST(Transformer, DropoutGradient) {
  TransformerConfig config{
      .vocabulary = 13, .context = 9, .channels = 16, .layers = 2, .heads = 2, .dropout = 0.3f};
  config.set_architecture("gpt");
  Model model(config);
  RandomBatch data(2, 9, 13);
  SerialExecutor executor;
  Session session(model.transformer, executor, 2, 9);
  session.context().training = true;
  model.transformer.forward_backward(session.context(), data.batch, session.state());
  const std::vector<float> gradient = model.gradients();
  const std::vector<float> direction = testing::random_floats(5, gradient.size());
  double expected = 0;
  for (size_t i = 0; i < gradient.size(); ++i) expected += double{gradient[i]} * direction[i];
  const auto move = [&](double step) {
    size_t i = 0;
    for (const auto& item : model.parameters.items()) {
      float* const v = item.weight->value.f32();
      for (int64_t k = 0; k < item.weight->value.elements(); ++k)
        v[k] += static_cast<float>(step * direction[i++]);
    }
    model.transformer.loss(session.context(), data.batch, session.state());
    return *session.state().loss_sum / static_cast<double>(data.batch.counted_targets);
  };
  constexpr double kStep = 2e-4;
  const double up = move(kStep), down = move(-2 * kStep);
  EXPECT_NEAR((up - down) / (2 * kStep), expected, 0.01 * std::abs(expected) + 1e-3);
}

TEST(Transformer, ParameterCountIsTheVisitorsSum) {
  for (const Case& c : cases()) {
    Transformer model(c.config);
    const Parameters dry(model, Parameters::Memory::kDry);
    EXPECT_EQ(dry.count(), c.config.parameter_count()) << c.name;
  }
  TransformerConfig gpt2{.vocabulary = 50257, .context = 1024, .channels = 768, .layers = 12, .heads = 12};
  gpt2.set_architecture("gpt");
  EXPECT_EQ(gpt2.parameter_count(), 124439808);
  EXPECT_EQ(gpt2.architecture(), "gpt");
}

// The operations of the parts are those by which a step's speed is stated.
TEST(Transformer, ProfileCountsTheOperationsOfAStep) {
  for (const char* architecture : {"gpt", "llama", "classic"}) {
    TransformerConfig config{
        .vocabulary = 50, .context = 24, .channels = 32, .layers = 2, .heads = 4, .dropout = 0.1f};
    config.set_architecture(architecture);
    config.attention.window = 10;
    Model model(config);
    RandomBatch data(2, 24, 50);
    SerialExecutor executor;
    Session session(model.transformer, executor, 2, 24);
    Profile profile;
    session.context().training = true;
    session.context().profile = &profile;
    model.transformer.forward_backward(session.context(), data.batch, session.state());
    double operations = 0;
    for (const Profile::Part& part : profile.parts()) {
      operations += static_cast<double>(part.calls) * part.work.operations;
      EXPECT_GT(part.seconds, 0) << part.work.name;
    }
    EXPECT_NEAR(operations, config.training_flops(2, 24), 1e-9 * operations) << architecture;
  }
}

TEST(Transformer, RefusesImpossibleSizesWithTheValues) {
  const auto refused = [](const TransformerConfig& c, std::string_view part) {
    expect_error(ErrorKind::kUse, {part}, [&] { c.resolved(); });
  };
  const TransformerConfig good{.vocabulary = 65, .context = 64, .channels = 128, .layers = 2, .heads = 4};
  good.resolved();
  TransformerConfig c = good;
  c.heads = 3;
  refused(c,
          "128 channels cannot be divided among 3 heads; use 2 or 4 heads, or 126 or 129 channels, or give "
          "--head-size");
  c = good, c.layers = 0;
  refused(c, "layers is 0");
  c = good, c.channels = -4;
  refused(c, "channels is -4");
  c = good, c.layers = 1000000000;
  refused(c, "layers is 1000000000");
  c = good, c.dropout = 1.5f;
  refused(c, "dropout is 1.5");
  c = good, c.channels = int64_t{1} << 30, c.head_size = 64, c.mlp_hidden = int64_t{1} << 32,
  c.layers = 10000;
  refused(c, "size overflow");
}

TEST(Transformer, RefusesForeignTokens) {
  TransformerConfig config{.vocabulary = 10, .context = 4, .channels = 8, .layers = 1, .heads = 1};
  Model model(config);
  RandomBatch data(2, 4, 10);
  data.tokens[6] = 10;
  SerialExecutor executor;
  Session session(model.transformer, executor, 2, 4);
  expect_error(ErrorKind::kUse, {"token 10 at row 1, position 2"},
               [&] { model.transformer.forward_backward(session.context(), data.batch, session.state()); });
}

TEST(Transformer, RefusesWhatIsMissing) {
  const TransformerConfig config{.vocabulary = 10, .context = 4, .channels = 8, .layers = 3, .heads = 1};
  Model model(config);
  const RandomBatch data(2, 4, 10);
  SerialExecutor executor;
  Session session(model.transformer, executor, 2, 4);
  Session forward_only(model.transformer, executor, 2, 4, /*backward=*/false);
  const auto refused = [&](Transformer& transformer, Session<Transformer>& with, const Batch& batch,
                           std::string_view part) {
    expect_error(ErrorKind::kUse, {part},
                 [&] { transformer.forward_backward(with.context(), batch, with.state()); });
  };
  model.transformer.forward_backward(session.context(), data.batch, session.state());
  refused(model.transformer, forward_only, data.batch, "forward alone");
  Batch batch = data.batch;
  batch.tokens = nullptr;
  refused(model.transformer, session, batch, "no tokens");
  batch = data.batch;
  batch.targets = nullptr;
  refused(model.transformer, session, batch, "no targets");
  EXPECT_THROW(model.transformer.loss(session.context(), batch, session.state()), Error);

  Transformer used(config);
  const Parameters values(used, Parameters::Memory::kValues);
  Session inference(used, executor, 2, 4, /*backward=*/false);
  refused(used, inference, data.batch, "no gradients");
}

}  // namespace
}  // namespace tril
