// Each warning is provoked once, told once, and told by a resumed run as by one that never stopped.
#include "tril/train/watch.h"

#include <cmath>

#include "tests/support/compare.h"
#include "tests/train/small_run.h"
#include "tril/train/training_data.h"

namespace tril {
namespace {

using testing::error_of;
using testing::expect_contains;
using testing::small_config;
using testing::small_corpus;
using testing::small_options;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<std::string> told(std::vector<Warning> warnings) {
  std::vector<std::string> lines;
  for (const Warning& warning : warnings)
    lines.push_back(fmt::format("{} {}: {}", name_of(warning.kind), warning.step, warning.message));
  return lines;
}

int64_t count_of(const std::vector<std::string>& lines, WarningKind kind) {
  return std::count_if(lines.begin(), lines.end(),
                       [&](const auto& line) { return line.starts_with(name_of(kind)); });
}

Corpus corpus_of(std::vector<int32_t> tokens) {
  Corpus corpus;
  corpus.train = std::move(tokens);
  return corpus;
}

TEST(Entropy, OfTokens) {
  EXPECT_EQ(training_entropy(corpus_of({}), 9), kInfinity);
  EXPECT_EQ(training_entropy(corpus_of({3, 3, 3}), 9), 0);
  EXPECT_NEAR(training_entropy(corpus_of({0, 5, 0, 5, 9, -1}), 9), std::log(2.0), 1e-15);
  const double expected = 0.25 * std::log(4.0) + 0.75 * std::log(4 / 3.0);
  EXPECT_NEAR(training_entropy(corpus_of({1, 2, 2, 2}), 9), expected, 1e-15);
  // As a mixture is read, whatever the sizes of its sources.
  const Corpus mixed = mix_corpora({corpus_of({1, 1, 1, 1, 1, 1}), corpus_of({2, 2})}, {1, 3});
  EXPECT_NEAR(training_entropy(mixed, 9), expected, 1e-12);
}

TEST(Watch, IsQuietInAGoodRun) {
  const TrainOptions o = small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  while (trainer.steps_done() < o.steps) {
    trainer.step();
    if (trainer.steps_done() % 10 == 0) trainer.evaluate();
  }
  EXPECT_EQ(told(trainer.take_warnings()), std::vector<std::string>{});
}

TEST(Watch, GradientNormSpikes) {
  TrainOptions o = small_options();
  o.clip = 0;
  Watch watch(o, kInfinity);
  for (int64_t step = 1; step <= 30; ++step) watch.step(step, 2, 0.5);
  EXPECT_TRUE(watch.take_warnings().empty());
  watch.step(31, 2, 4.9);
  EXPECT_TRUE(watch.take_warnings().empty());
  watch.step(32, 2, 80);
  const std::vector<std::string> lines = told(watch.take_warnings());
  ASSERT_EQ(lines.size(), 1u);
  expect_contains(lines[0], "gradient_norm 32: the gradient norm 80 is");
  expect_contains(lines[0], "--clip 1");
  for (int64_t step = 33; step < 164; ++step) watch.step(step, 2, step % 25 == 0 ? 800 : 0.5);
  EXPECT_TRUE(watch.take_warnings().empty()) << "told again before step 164";
  for (int64_t step = 164; step <= 200; ++step) watch.step(step, 2, step % 25 == 0 ? 800 : 0.5);
  EXPECT_EQ(watch.take_warnings().size(), 1u);
}

TEST(Watch, LearningRateTooHigh) {
  TrainOptions o = small_options();
  o.learning_rate = 5;
  o.min_learning_rate = 5;
  o.clip = 0;
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  while (trainer.steps_done() < o.steps) trainer.step();
  const std::vector<std::string> lines = told(trainer.take_warnings());
  ASSERT_EQ(count_of(lines, WarningKind::kLearningRate), 1) << fmt::format("{}", fmt::join(lines, "\n"));
  expect_contains(fmt::format("{}", fmt::join(lines, "\n")), "--learning-rate 5 is too high");
}

TEST(Watch, LossAboveTheUnigramEntropy) {
  TrainOptions o = small_options();
  o.steps = 140;
  o.learning_rate = o.min_learning_rate = 1e-12f;
  Corpus corpus;
  for (int i = 0; i < 2000; ++i) corpus.train.push_back(i % 8 == 0 ? i % 17 : 0);
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  while (trainer.steps_done() < 103) trainer.step();
  EXPECT_TRUE(trainer.take_warnings().empty());
  while (trainer.steps_done() < o.steps) trainer.step();
  const std::vector<std::string> lines = told(trainer.take_warnings());
  ASSERT_EQ(lines.size(), 1u);
  expect_contains(lines[0], "above_unigram 104: ");
  expect_contains(lines[0], fmt::format("is above {:.4f}", training_entropy(corpus, 17)));
}

TEST(Watch, ValidationRisesWhileTrainingFalls) {
  TrainOptions o = small_options();
  o.steps = 200;
  o.schedule = "constant";
  Corpus corpus = small_corpus(17, 80, 300);
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  while (trainer.steps_done() < o.steps) {
    trainer.step();
    if (trainer.steps_done() % 10 == 0) trainer.evaluate();
  }
  const std::vector<std::string> lines = told(trainer.take_warnings());
  ASSERT_GE(count_of(lines, WarningKind::kOverfitting), 1) << fmt::format("{}", fmt::join(lines, "\n"));
  EXPECT_GT(trainer.watch().validations_since_best, 3);
  const std::string text = fmt::format("{}", fmt::join(lines, "\n"));
  for (const char* part : {"by heart", "--patience", "--dropout", "--final-model best"})
    expect_contains(text, part);
}

TEST(Watch, DeadUnits) {
  TrainOptions o = small_options();
  o.arch = "classic";
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  const auto lines_with_dead = [&](int64_t dead) {
    Trainer trainer(small_config(o), o, corpus, executor);
    float* const bias = trainer.parameters().find("blocks.1.mlp.hidden.bias").value.f32();
    for (int64_t i = 0; i < dead; ++i) bias[i] = -1000;
    trainer.step();
    return told(trainer.take_warnings());
  };
  EXPECT_TRUE(lines_with_dead(0).empty());
  EXPECT_TRUE(lines_with_dead(40).empty());
  const std::vector<std::string> lines = lines_with_dead(60);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_TRUE(lines[0].starts_with("dead_units 1: 6")) << lines[0];
  expect_contains(lines[0], " of 96 ReLU units of blocks.1.mlp.hidden.weight are active for no token");
}

// What a run that is interrupted after `saves` steps tells: all of it, in order.
std::vector<std::string> lines_of_run(const TrainOptions& o, const Corpus& corpus, int64_t save_at) {
  const testing::TemporaryFolder folder;
  SerialExecutor executor;
  std::vector<std::string> lines;
  auto trainer = std::make_unique<Trainer>(small_config(o), o, corpus, executor);
  while (trainer->steps_done() < o.steps) {
    trainer->step();
    if (trainer->steps_done() % 10 == 0) trainer->evaluate();
    for (const std::string& line : told(trainer->take_warnings())) lines.push_back(line);
    if (trainer->steps_done() != save_at) continue;
    trainer->save(folder.path(), "{}");
    trainer = std::make_unique<Trainer>(small_config(o), o, corpus, executor);
    trainer->resume(find_checkpoint(folder.path()).value());
  }
  lines.push_back(fmt::format("{}", trainer->watch().validations_since_best));
  return lines;
}

TEST(Watch, ResumedTellsWhatNeverStoppedTells) {
  TrainOptions o = small_options();
  o.steps = 200;
  o.learning_rate = o.min_learning_rate = 5;
  o.clip = 0;
  const Corpus corpus = small_corpus(17, 80, 300);
  const std::vector<std::string> straight = lines_of_run(o, corpus, -1);
  ASSERT_GT(straight.size(), 1u);
  for (const int64_t save_at : {1, 3, 15, 30, 55, 110})
    EXPECT_EQ(lines_of_run(o, corpus, save_at), straight) << save_at;
}

TEST(Patience, CountsValidationsWithoutANewBest) {
  TrainOptions o = small_options();
  o.patience = 2;
  Watch watch(o, kInfinity);
  const auto after = [&](int64_t step, double loss) {
    watch.validation(step, loss);
    return out_of_patience(o, watch.state);
  };
  EXPECT_FALSE(after(10, 3));
  EXPECT_FALSE(after(20, 3));
  EXPECT_FALSE(after(20, 3)) << "the same step again";
  EXPECT_FALSE(after(30, 2.9));
  EXPECT_FALSE(after(40, 2.95));
  EXPECT_TRUE(after(50, 2.95));
  EXPECT_EQ(watch.state.best_validation_step, 30);
  o.patience = 0;
  EXPECT_FALSE(out_of_patience(o, watch.state));
}

class Skipping : public ::testing::Test {
 protected:
  std::unique_ptr<Trainer> make(int64_t max_skipped) {
    TrainOptions o = small_options();
    o.max_skipped = max_skipped;
    return std::make_unique<Trainer>(small_config(o), o, corpus_, executor_);
  }
  // Gradients accumulate: what is there before the step stays.
  static StepReport bad_step(Trainer& trainer) {
    float* const gradient = trainer.parameters().find("blocks.0.mlp.hidden.bias").gradient.f32();
    gradient[7] = std::numeric_limits<float>::quiet_NaN();
    gradient[9] = std::numeric_limits<float>::infinity();
    gradient[11] = 3;
    return trainer.step();
  }

  Corpus corpus_ = small_corpus();
  SerialExecutor executor_;
};

TEST_F(Skipping, LeavesTheWeightsAndTellsWhy) {
  const auto trainer = make(2);
  testing::run_steps(*trainer, 3);
  const std::vector<float> before = testing::run_state(*trainer);
  const StepReport report = bad_step(*trainer);
  EXPECT_TRUE(report.skipped);
  EXPECT_EQ(report.step, 4);
  EXPECT_FALSE(std::isfinite(report.gradient_norm));
  testing::expect_same_bits("state", testing::run_state(*trainer), before);
  const std::vector<std::string> lines = told(trainer->take_warnings());
  ASSERT_EQ(lines.size(), 1u);
  for (const char* part : {"skipped_step 4: ", "gradient of blocks.0.mlp.hidden.bias", "element 7 is nan",
                           "2 of 96 are not finite", "with norm", "1 of 28 gradients is bad"})
    expect_contains(lines[0], part);
  const StepReport next = trainer->step();
  EXPECT_FALSE(next.skipped);
  EXPECT_EQ(next.step, 5);
  EXPECT_NE(testing::run_state(*trainer), before);
}

TEST_F(Skipping, SoManyInARowAlsoAfterAResume) {
  const testing::TemporaryFolder folder;
  auto trainer = make(2);
  bad_step(*trainer);
  trainer->step();
  bad_step(*trainer);
  trainer->save(folder.path(), "{}");
  trainer = make(2);
  trainer->resume(find_checkpoint(folder.path()).value());
  EXPECT_EQ(trainer->watch().skipped_in_a_row, 1);
  EXPECT_TRUE(bad_step(*trainer).skipped);
  const std::string message = error_of(ErrorKind::kNumerics, [&] { bad_step(*trainer); });
  expect_contains(message, "step 5: ");
  expect_contains(message, "2 before it were skipped");
  EXPECT_EQ(trainer->steps_done(), 4);
  EXPECT_FALSE(trainer->step().skipped);
}

TEST_F(Skipping, BadWeightsAreNeverSkipped) {
  const auto trainer = make(5);
  trainer->step();
  trainer->parameters().find("ln_final.weight").value.f32()[3] = std::numeric_limits<float>::infinity();
  const std::string message = error_of(ErrorKind::kNumerics, [&] { trainer->step(); });
  for (const char* part :
       {"weight ln_final.weight", "element 3 is inf", "1 of 24 is not finite", "others from"})
    expect_contains(message, part);
}

}  // namespace
}  // namespace tril
