#include "tril/train/rate_sweep.h"

#include "tests/train/small_run.h"

namespace tril {
namespace {

TEST(RateSweep, FindsWhereTheLossTurns) {
  const TrainOptions o = testing::small_options();
  const Corpus corpus = testing::counting_corpus();
  SerialExecutor executor;
  int64_t seen = 0;
  const RateSweep sweep =
      sweep_learning_rates(testing::small_config(o), o, corpus, executor,
                           {.lowest = 1e-4, .highest = 10, .steps = 120}, [&](const RatePoint&) { ++seen; });
  ASSERT_TRUE(sweep.suggestion);
  EXPECT_EQ(seen, std::ssize(sweep.points));
  EXPECT_TRUE(sweep.exploded);
  EXPECT_LT(seen, 120);
  EXPECT_DOUBLE_EQ(sweep.points[0].learning_rate, 1e-4);
  EXPECT_NEAR(sweep.points[10].learning_rate, 1e-4 * std::pow(1e5, 10.0 / 119), 1e-12);
  EXPECT_DOUBLE_EQ(sweep.points[0].smoothed, sweep.points[0].loss);
  EXPECT_GT(*sweep.suggestion, 1e-3);  // the model learns at 3e-3
  EXPECT_LT(*sweep.suggestion, 0.1);
  EXPECT_LT(*sweep.steepest_rate, *sweep.turning_rate);
  EXPECT_DOUBLE_EQ(*sweep.suggestion, std::min(3 * *sweep.steepest_rate, *sweep.turning_rate / 4));

  // The suggestion is learned with.
  TrainOptions suggested = o;
  suggested.learning_rate = static_cast<float>(*sweep.suggestion);
  Trainer trainer(testing::small_config(o), suggested, corpus, executor);
  EXPECT_LT(testing::run_steps(trainer, 40).back(), sweep.points[0].loss - 0.3);
}

TEST(RateSweep, NothingIsSuggestedWhereNothingIsLearned) {
  const TrainOptions o = testing::small_options();
  const Corpus corpus = testing::small_corpus();
  SerialExecutor executor;
  const RateSweep sweep = sweep_learning_rates(testing::small_config(o), o, corpus, executor,
                                               {.lowest = 1e-12, .highest = 1e-10, .steps = 10});
  EXPECT_EQ(std::ssize(sweep.points), 10);
  EXPECT_FALSE(sweep.exploded);
  EXPECT_FALSE(sweep.suggestion);
}

TEST(RateSweep, StartsFromOtherWeights) {
  const TrainOptions o = testing::small_options();
  const Corpus corpus = testing::counting_corpus();
  SerialExecutor executor;
  Trainer trained(testing::small_config(o), o, corpus, executor);
  testing::run_steps(trained, 20);
  const RateSweep sweep =
      sweep_learning_rates(testing::small_config(o), o, corpus, executor,
                           {.lowest = 1e-12, .highest = 1e-10, .steps = 10}, {}, &trained.parameters());
  Trainer fresh(testing::small_config(o), o, corpus, executor);
  EXPECT_LT(sweep.points[0].loss, fresh.step().loss - 0.1);
}

TEST(RateSweep, RefusesRatesThatDoNotGrow) {
  const TrainOptions o = testing::small_options();
  const Corpus corpus = testing::small_corpus();
  SerialExecutor executor;
  testing::expect_contains(testing::error_of(ErrorKind::kUse,
                                             [&] {
                                               sweep_learning_rates(testing::small_config(o), o, corpus,
                                                                    executor, {.lowest = 1, .highest = 1});
                                             }),
                           "rate sweep: from 1 to 1");
}

}  // namespace
}  // namespace tril
