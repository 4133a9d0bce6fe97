#include "tril/train/trainer.h"

#include <cmath>
#include <limits>

#include "tests/support/compare.h"
#include "tests/train/small_run.h"

namespace tril {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::run_state;
using testing::run_steps;
using testing::small_config;
using testing::small_corpus;
using testing::small_options;

Batch batch_of(const std::vector<int32_t>& tokens, int64_t batch, int64_t time) {
  return {.batch = batch, .time = time, .tokens = tokens.data(), .targets = tokens.data() + 1};
}

TEST(Trainer, OverfitsOneBatch) {
  TrainOptions o = small_options();
  o.schedule = "constant";
  o.steps = 300;
  o.weight_decay = 0;
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  WindowSampler sampler(corpus.train, o.batch, o.context, 1);
  const Batch batch = sampler.sample(0);
  double loss = 0;
  for (int i = 0; i < 300; ++i) loss = trainer.step_on({&batch, 1}).loss;
  EXPECT_LT(loss, 0.01);
}

TEST(Trainer, FirstLossIsThatOfGuessing) {
  for (const int64_t vocabulary : {3, 65, 1000}) {
    TrainOptions o = small_options();
    const Corpus corpus = small_corpus(vocabulary);
    SerialExecutor executor;
    Trainer trainer(small_config(o, vocabulary), o, corpus, executor);
    WindowSampler sampler(corpus.train, o.batch, o.context, o.seed);
    const Batch& batch = sampler.sample(0);
    Session<Transformer> session(trainer.model(), executor, o.batch, o.context, /*backward=*/false);
    Tensor logits({batch.rows(), vocabulary});
    trainer.model().logits(session.context(), batch, session.state(), logits);
    double variance = 0;  // of a row's logits, over the rows
    for (int64_t n = 0; n < batch.rows(); ++n) {
      double sum = 0, squares = 0;
      for (int64_t v = 0; v < vocabulary; ++v) {
        const double x = logits.f32()[n * vocabulary + v];
        sum += x;
        squares += x * x;
      }
      const auto count = static_cast<double>(vocabulary);
      variance += (squares / count - sum / count * sum / count) / static_cast<double>(batch.rows());
    }
    EXPECT_GT(variance, 0);
    EXPECT_NEAR(trainer.step().loss, std::log(static_cast<double>(vocabulary)) + variance / 2, 0.05);
  }
}

TEST(Trainer, SmallestShapesStayFinite) {
  TrainOptions o = small_options();
  o.layers = o.heads = o.batch = o.context = 1;
  o.channels = 2;
  const Corpus corpus = small_corpus(3);
  SerialExecutor executor;
  Trainer trainer(small_config(o, 3), o, corpus, executor);
  for (const double loss : run_steps(trainer, 10)) EXPECT_TRUE(std::isfinite(loss));
}

TEST(Trainer, LearnsTheNextTokenAndNotTheOneAfter) {
  Corpus corpus;
  for (int i = 0; i < 1000; ++i) corpus.train.push_back(i % 3);
  TrainOptions o = small_options();
  o.steps = 60;
  SerialExecutor executor;
  Trainer trainer(small_config(o, 3), o, corpus, executor);
  const std::vector<double> losses = run_steps(trainer, 60);
  EXPECT_LT(losses.back(), 0.2);  // guessing is 1.1
  Session<Transformer> session(trainer.model(), executor, 1, 1, false);
  Tensor logits({1, 3});
  for (const int32_t token : {0, 1, 2}) {
    trainer.model().logits(session.context(), {.batch = 1, .time = 1, .tokens = &token}, session.state(),
                           logits);
    EXPECT_EQ(std::max_element(logits.f32(), logits.f32() + 3) - logits.f32(), (token + 1) % 3);
  }
}

TEST(Trainer, ReportsWhatItDid) {
  const TrainOptions o = small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  trainer.step();
  const StepReport report = trainer.step();
  EXPECT_EQ(report.step, 2);
  EXPECT_EQ(trainer.steps_done(), 2);
  EXPECT_EQ(report.learning_rate, learning_rate_at(o, 1));
  EXPECT_GT(report.gradient_norm, 0);
  EXPECT_GT(report.seconds, 0);
}

TEST(Trainer, EvaluationRepeatsAndHasNoDropout) {
  TrainOptions o = small_options();
  o.dropout = 0.5f;
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer with(small_config(o), o, corpus, executor);
  run_steps(with, 3);
  const Evaluation first = with.evaluate(), second = with.evaluate();
  EXPECT_EQ(first.loss_nats, second.loss_nats);
  EXPECT_EQ(first.tokens, 3 * o.batch * o.context);
  EXPECT_DOUBLE_EQ(first.bits_per_byte, first.loss_nats / std::log(2.0) / 2);  // two bytes a token
  EXPECT_EQ(with.watch().best_validation_loss, first.loss_nats);

  TrainOptions none = o;
  none.dropout = 0;
  Trainer without(small_config(none), none, corpus, executor);
  for (size_t i = 0; i < with.parameters().items().size(); ++i) {
    const View& from = with.parameters().items()[i].weight->value;
    std::copy_n(from.f32(), from.elements(), without.parameters().items()[i].weight->value.f32());
  }
  EXPECT_EQ(without.evaluate().loss_nats, first.loss_nats);
}

TEST(Trainer, EvaluatesTheAverageOfTheWeights) {
  TrainOptions o = small_options();
  o.ema = 0.9f;
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer averaged(small_config(o), o, corpus, executor);
  TrainOptions none = o;
  none.ema = 0;
  Trainer plain(small_config(none), none, corpus, executor);
  EXPECT_EQ(averaged.evaluate().loss_nats, plain.evaluate().loss_nats);  // no average before the first step
  EXPECT_EQ(run_steps(averaged, 20), run_steps(plain, 20));
  const std::vector<float> before = run_state(averaged);
  const double loss = averaged.evaluate().loss_nats;
  testing::expect_same_bits("state", run_state(averaged), before);
  EXPECT_NE(loss, plain.evaluate().loss_nats);
  {
    const AveragedWeights scope = averaged.averaged_weights();
    for (size_t i = 0; i < plain.parameters().items().size(); ++i) {
      const View& from = averaged.parameters().items()[i].weight->value;
      std::copy_n(from.f32(), from.elements(), plain.parameters().items()[i].weight->value.f32());
    }
  }
  EXPECT_EQ(loss, plain.evaluate().loss_nats);
  const Trainer::Memory memory = Trainer::plan_memory(small_config(o), o, 1);
  EXPECT_EQ(memory.averages, averaged.optimizer().average_bytes());
  EXPECT_EQ(memory.averages, memory.parameters);
}

// A first step that is left out leaves an average that is the first weights.
TEST(Trainer, TheAverageBeginsWithTheFirstWeights) {
  TrainOptions o = small_options();
  o.ema = 0.9f;
  o.max_skipped = 1;
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  const double first = trainer.evaluate().loss_nats;
  trainer.parameters().items()[0].weight->gradient.f32()[0] = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(trainer.step().skipped);
  EXPECT_EQ(trainer.evaluate().loss_nats, first);
}

TEST(Trainer, MomentsInHalvesTakeHalfTheMemoryAndLearnAsWell) {
  TrainOptions o = small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer whole(small_config(o), o, corpus, executor);
  o.moments = "bf16";
  Trainer half(small_config(o), o, corpus, executor);
  EXPECT_EQ(Trainer::plan_memory(small_config(o), o, 1).moments, half.optimizer().bytes());
  EXPECT_LT(half.optimizer().bytes(), whole.optimizer().bytes() * 0.55);
  EXPECT_NEAR(run_steps(half, 40).back(), run_steps(whole, 40).back(), 0.02);
}

TEST(Trainer, SmoothedLabelsAreLearnedButNotReported) {
  TrainOptions o = small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer plain(small_config(o), o, corpus, executor);
  o.label_smoothing = 0.2f;
  Trainer smoothed(small_config(o), o, corpus, executor);
  EXPECT_EQ(smoothed.step().loss, plain.step().loss);
  EXPECT_NE(smoothed.step().loss, plain.step().loss);
}

TEST(Trainer, EvaluationOfEverythingCountsEachTargetOnce) {
  TrainOptions o = small_options();
  o.eval_batches = 0;
  const Corpus corpus = small_corpus(17, 3000, 205);
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  EXPECT_EQ(trainer.evaluate().tokens, 204);
}

TEST(Trainer, PlansTheMemoryItTakes) {
  const TrainOptions o = small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  const Trainer::Memory memory = Trainer::plan_memory(small_config(o), o, 1);
  EXPECT_EQ(memory.parameters, trainer.parameters().bytes());
  EXPECT_EQ(memory.gradients, trainer.parameters().gradient_bytes());
  EXPECT_EQ(memory.moments, trainer.optimizer().bytes());
  const SessionBytes training = session_bytes(trainer.model(), 1, o.batch, o.context);
  EXPECT_EQ(memory.activations, training.saved);
  EXPECT_EQ(memory.scratch, training.scratch);
  // Far more than there is: counted, not allocated.
  TrainOptions large = o;
  large.layers = 100;
  large.channels = 12288;
  large.heads = 96;
  large.context = 2048;
  EXPECT_GT(Trainer::plan_memory(small_config(large), large, 2).total(), int64_t{2'000'000'000'000});
}

// Level by level less memory, and the same run.
TEST(Trainer, CheckpointingChangesMemoryAlone) {
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  std::vector<float> all;
  double loss = 0;
  int64_t activations = std::numeric_limits<int64_t>::max();
  for (const char* level : {"none", "selective", "block"}) {
    TrainOptions o = small_options();
    o.dropout = 0.2f;
    o.layers = 3;
    o.checkpointing = level;
    const int64_t bytes = Trainer::plan_memory(small_config(o), o, 1).activations;
    EXPECT_LT(bytes, activations) << level;
    activations = bytes;
    Trainer trainer(small_config(o), o, corpus, executor);
    run_steps(trainer, 2);
    const double validation = trainer.evaluate().loss_nats;
    run_steps(trainer, 1);
    if (all.empty()) all = run_state(trainer), loss = validation;
    testing::expect_same_bits(level, run_state(trainer), all);
    EXPECT_EQ(validation, loss) << level;
  }
}

TEST(Trainer, RefusesUnresolvedOptionsAndMissingData) {
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  TrainOptions o = small_options();
  o.batch = 0;
  expect_contains(error_of(ErrorKind::kUse, [&] { Trainer(small_config(o), o, corpus, executor); }),
                  "--batch 0");
  Corpus empty;
  o = small_options();
  Trainer trainer(small_config(o), o, empty, executor);
  expect_contains(error_of(ErrorKind::kUse, [&] { trainer.step(); }), "training tokens");
  expect_contains(error_of(ErrorKind::kUse, [&] { trainer.evaluate(); }), "validation tokens");
}

TEST(Trainer, NamesTheWeightThatIsNotFinite) {
  const TrainOptions o = small_options();
  const Corpus corpus = small_corpus();
  ThreadPool pool(2);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Trainer trainer(small_config(o), o, corpus, pool);
    run_steps(trainer, 2);
    trainer.parameters().find("blocks.1.mlp.hidden.weight").value.f32()[77] = bad;
    const std::vector<float> before = run_state(trainer);
    const std::string message = error_of(ErrorKind::kNumerics, [&] { trainer.step(); });
    expect_contains(message, "step 3");
    expect_contains(message, "blocks.1.mlp.hidden.weight");
    expect_contains(message, "element 77");
    EXPECT_EQ(trainer.steps_done(), 2);
    const std::vector<float> after = run_state(trainer);
    testing::expect_same_bits("state", after, before);

    const testing::TemporaryFolder folder;
    expect_contains(error_of(ErrorKind::kNumerics, [&] { trainer.save(folder.path(), "{}"); }),
                    "blocks.1.mlp.hidden.weight");
    EXPECT_FALSE(std::filesystem::exists(folder.path() / "steps"));
  }
}

TEST(Trainer, NamesTheGradientThatIsNotFiniteAndGoesOn) {
  const TrainOptions o = small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor), other(small_config(o), o, corpus, executor);
  run_steps(trainer, 2);
  run_steps(other, 2);
  trainer.parameters().find("ln_final.bias").gradient.f32()[5] = std::numeric_limits<float>::quiet_NaN();
  const std::string message = error_of(ErrorKind::kNumerics, [&] { trainer.step(); });
  expect_contains(message, "step 3");
  expect_contains(message, "gradient of ln_final.bias");
  expect_contains(message, "element 5");
  testing::expect_same_bits("state", run_state(trainer), run_state(other));
  EXPECT_EQ(trainer.step().loss, other.step().loss);
  testing::expect_same_bits("state", run_state(trainer), run_state(other));
}

TEST(Trainer, DropoutDiffersFromStepToStepAndWithinAStep) {
  TrainOptions o = small_options();
  o.dropout = 0.3f;
  o.learning_rate = 1e-30f;
  o.weight_decay = 0;
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  WindowSampler sampler(corpus.train, o.batch, o.context, 1);
  const Batch batch = sampler.sample(0);
  const auto losses = [&](std::span<const Batch> batches) {
    o.accumulate = std::ssize(batches);
    Trainer trainer(small_config(o), o, corpus, executor);
    return std::pair{trainer.step_on(batches).loss, trainer.step_on(batches).loss};  // in this order
  };
  const Batch twice[] = {batch, batch};
  const auto one = losses({&batch, 1}), two = losses(twice);
  EXPECT_NE(one.first, one.second);
  EXPECT_NE(one.first, two.first);
  EXPECT_NEAR(two.first, (one.first + one.second) / 2, 1e-6);  // the masks of micro-batches 0 and 1
  o.dropout = 0;
  EXPECT_EQ(losses({&batch, 1}).first, losses({&batch, 1}).second);
}

// The state after one step on these micro-batches.
std::vector<float> after_step(int64_t rows, const std::vector<Batch>& micro_batches, double* loss) {
  TrainOptions o = small_options();
  o.batch = rows;
  o.accumulate = std::ssize(micro_batches);
  o.epsilon = 1e-2f;  // so that the update is smooth in the gradient
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  *loss = trainer.step_on(micro_batches).loss;
  return run_state(trainer);
}

void expect_near_all(const std::vector<float>& a, const std::vector<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-7 + 1e-5 * std::abs(b[i])) << i;
}

TEST(Accumulation, EqualsOneBatch) {
  const Corpus corpus = small_corpus();
  std::vector<int32_t> tokens(corpus.train.begin(), corpus.train.begin() + 6 * 16 + 1);
  std::vector<Batch> parts;
  for (int i = 0; i < 3; ++i) {
    parts.push_back(batch_of(tokens, 2, 16));
    parts.back().tokens += i * 32;
    parts.back().targets += i * 32;
  }
  double whole_loss = 0, parts_loss = 0;
  const auto whole = after_step(6, {batch_of(tokens, 6, 16)}, &whole_loss);
  const auto accumulated = after_step(2, parts, &parts_loss);
  EXPECT_NEAR(whole_loss, parts_loss, 1e-6);
  expect_near_all(accumulated, whole);
}

TEST(Accumulation, CountsTargetsAndNotBatches) {
  const Corpus corpus = small_corpus();
  std::vector<int32_t> tokens(corpus.train.begin(), corpus.train.begin() + 6 * 16 + 1);
  std::vector<uint8_t> mask(6 * 16, 0);
  for (size_t i = 0; i < mask.size(); ++i)
    mask[i] = i < 5 || (i > 40 && i % 3 == 0) || i > 64;  // 5, 7, 31 or so
  std::vector<Batch> parts;
  for (int i = 0; i < 3; ++i) {
    parts.push_back(batch_of(tokens, 2, 16));
    parts.back().tokens += i * 32;
    parts.back().targets += i * 32;
    parts.back().loss_mask = mask.data() + i * 32;
  }
  Batch all = batch_of(tokens, 6, 16);
  all.loss_mask = mask.data();
  double whole_loss = 0, parts_loss = 0;
  const auto whole = after_step(6, {all}, &whole_loss);
  const auto accumulated = after_step(2, parts, &parts_loss);
  EXPECT_NEAR(whole_loss, parts_loss, 1e-6);
  expect_near_all(accumulated, whole);
}

TEST(Accumulation, NothingToLearnIsRefused) {
  const Corpus corpus = small_corpus();
  std::vector<uint8_t> mask(64, 0);
  Batch batch = batch_of(corpus.train, 4, 16);
  batch.loss_mask = mask.data();
  double loss = 0;
  expect_contains(error_of(ErrorKind::kUse, [&] { after_step(4, {batch}, &loss); }), "loss masks");
}

TEST(Accumulation, RefusesAnotherNumberOfBatches) {
  const TrainOptions o = small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  WindowSampler sampler(corpus.train, o.batch, o.context, 1);
  const Batch batch = sampler.sample(0);
  const Batch twice[] = {batch, batch};
  expect_contains(error_of(ErrorKind::kUse, [&] { trainer.step_on(twice); }), "2 micro-batches");
}

TEST(Accumulation, OfTheSamplersBatches) {
  TrainOptions o = small_options();
  o.accumulate = 3;
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor), by_hand(small_config(o), o, corpus, executor);
  WindowSampler a(corpus.train, 4, 16, o.seed), b(corpus.train, 4, 16, o.seed),
      c(corpus.train, 4, 16, o.seed);
  for (int64_t step = 0; step < 2; ++step) {
    const Batch batches[] = {a.sample(3 * step), b.sample(3 * step + 1), c.sample(3 * step + 2)};
    EXPECT_EQ(trainer.step().loss, by_hand.step_on(batches).loss);
  }
  testing::expect_same_bits("state", run_state(trainer), run_state(by_hand));
}

}  // namespace
}  // namespace tril
