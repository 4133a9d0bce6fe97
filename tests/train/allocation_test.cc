// The training loop allocates nothing: every operator new of this program is counted.
#include "tests/support/count_allocations.h"
#include "tests/train/small_run.h"

namespace tril {
namespace {

using testing::allocations;

void expect_none_in_a_step(const TrainOptions& o) {
  const Corpus corpus = testing::small_corpus();
  ThreadPool pool(2);
  Trainer trainer(testing::small_config(o), o, corpus, pool);
  trainer.step();
  trainer.evaluate();
  const int64_t before = allocations;
  double loss = 0;
  for (int i = 0; i < 3; ++i) loss += trainer.step().loss;
  loss += trainer.evaluate().loss_nats;
  EXPECT_EQ(allocations - before, 0);
  EXPECT_GT(loss, 0);
  EXPECT_GT(before, 0);
}

TEST(Allocation, NoneInAStep) {
  if (!TRIL_COUNT_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  TrainOptions o = testing::small_options();
  o.dropout = 0.1f;
  o.accumulate = 2;
  expect_none_in_a_step(o);
  o.optimizer = "muon", o.moments = "bf16", o.ema = 0.9f, o.label_smoothing = 0.1f;
  expect_none_in_a_step(o);
}

}  // namespace
}  // namespace tril
