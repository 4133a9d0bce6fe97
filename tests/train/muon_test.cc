// Muon in the optimizer: which parameters take it, and that it learns.
#include "tests/reference/muon.h"

#include <map>

#include "tests/support/compare.h"
#include "tests/train/small_run.h"

namespace tril {
namespace {

using testing::convert;

// A fused matrix of three parts, an embedding, a bias.
struct Toy {
  Weight fused, embedding, bias;
  void visit(const std::string& prefix, ParameterVisitor v) {
    v({.name = prefix + "fused",
       .shape = {12, 5},
       .init_std = 1,
       .decay = true,
       .hidden = true,
       .parts = {{"query", 0, 6}, {"key", 6, 9}, {"value", 9, 12}}},
      fused);
    v({.name = prefix + "embedding", .shape = {9, 5}, .init_std = 1, .decay = true}, embedding);
    v({.name = prefix + "bias", .shape = {5}, .init_std = 1}, bias);
  }
};

TrainOptions muon_options() {
  TrainOptions o = testing::small_options();
  o.optimizer = "muon";
  return o;
}

std::vector<float> floats_of(const View& view) { return {view.f32(), view.f32() + view.elements()}; }

TEST(MuonOptimizer, TakesEachPartOfAFusedMatrixAndNothingElse) {
  Toy toy, plain;
  Parameters parameters(toy), others(plain);
  parameters.initialize(3);
  others.initialize(3);
  TrainOptions o = muon_options();
  o.clip = 0.5f;
  Optimizer optimizer(parameters, o);
  TrainOptions adamw_options = o;
  adamw_options.optimizer = "adamw";
  Optimizer adamw_optimizer(others, adamw_options);
  SerialExecutor executor;
  std::vector<double> w = convert<double>(floats_of(toy.fused.value)), m(w.size());
  for (int64_t t = 0; t < 4; ++t) {
    double squares = 0;
    for (size_t i = 0; i < 3; ++i) {
      const View& g = parameters.items()[i].weight->gradient;
      const auto values =
          testing::random_floats(10 + static_cast<uint64_t>(t) * 3 + i, static_cast<size_t>(g.elements()));
      std::copy(values.begin(), values.end(), g.f32());
      std::copy(values.begin(), values.end(), others.items()[i].weight->gradient.f32());
      for (const float x : values) squares += double{x} * x;
    }
    MuonStep s{.learning_rate = learning_rate_at(o, t), .weight_decay = o.weight_decay};
    s.gradient_scale = static_cast<float>(o.clip / std::sqrt(squares));
    const std::vector<float> g = floats_of(toy.fused.gradient);
    for (const auto& range : {std::pair(0, 30), {30, 45}, {45, 60}}) {
      const int begin = range.first, end = range.second;
      const auto part = [&](const auto& all) {
        return std::vector<double>(all.begin() + begin, all.begin() + end);
      };
      std::vector<double> part_w = part(w), part_m = part(m);
      reference::muon(s, static_cast<size_t>(end - begin) / 5, 5, part_w, part(g), part_m);
      std::copy(part_w.begin(), part_w.end(), w.begin() + begin);
      std::copy(part_m.begin(), part_m.end(), m.begin() + begin);
    }
    optimizer.update(executor, t);
    adamw_optimizer.update(executor, t);
  }
  const std::vector<float> fused = floats_of(toy.fused.value);
  for (size_t i = 0; i < w.size(); ++i) EXPECT_NEAR(fused[i], w[i], 1e-5) << i;
  testing::expect_same_bits("embedding", floats_of(toy.embedding.value), floats_of(plain.embedding.value));
  testing::expect_same_bits("bias", floats_of(toy.bias.value), floats_of(plain.bias.value));
  EXPECT_FALSE(static_cast<bool>(optimizer.moments()[0].v));
}

TEST(MuonOptimizer, TakesTheHiddenMatricesOfAModel) {
  TrainOptions o = muon_options();
  o.arch = "llama", o.heads = 4, o.kv_heads = 2, o.tied_head = "false";
  const Corpus corpus = testing::small_corpus();
  SerialExecutor executor;
  Trainer trainer(testing::small_config(o), o, corpus, executor);
  std::vector<std::string> taken;
  for (size_t i = 0; i < trainer.parameters().items().size(); ++i)
    if (!trainer.optimizer().moments()[i].v) taken.push_back(trainer.parameters().items()[i].info.name);
  EXPECT_EQ(taken,
            (std::vector<std::string>{"blocks.0.attention.qkv.weight", "blocks.0.attention.projection.weight",
                                      "blocks.0.mlp.gate.weight", "blocks.0.mlp.hidden.weight",
                                      "blocks.0.mlp.projection.weight", "blocks.1.attention.qkv.weight",
                                      "blocks.1.attention.projection.weight", "blocks.1.mlp.gate.weight",
                                      "blocks.1.mlp.hidden.weight", "blocks.1.mlp.projection.weight"}));
  const Trainer::Memory memory = Trainer::plan_memory(testing::small_config(o), o, 1);
  EXPECT_EQ(memory.moments, trainer.optimizer().bytes());
  TrainOptions adamw = o;
  adamw.optimizer = "adamw";
  const Trainer::Memory plain = Trainer::plan_memory(testing::small_config(o), adamw, 1);
  EXPECT_LT(memory.moments, plain.moments);
  EXPECT_EQ(memory.scratch - plain.scratch, trainer.optimizer().workspace_bytes());
}

TEST(MuonOptimizer, Learns) {
  TrainOptions o = muon_options();
  o.steps = 60;
  const Corpus corpus = testing::counting_corpus();
  SerialExecutor executor;
  Trainer trainer(testing::small_config(o), o, corpus, executor);
  const double first = trainer.step().loss;
  const std::vector<double> losses = testing::run_steps(trainer, 59);
  EXPECT_LT(losses.back(), first / 2);
}

}  // namespace
}  // namespace tril
