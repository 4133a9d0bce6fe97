// Resume == never stopped, bit for bit, dropout and accumulation included.
#include <algorithm>

#include "tests/support/compare.h"
#include "tests/train/whole_run.h"

namespace tril {
namespace {

using testing::dropout_options;
using testing::run_state;
using testing::run_steps;
using testing::small_config;
using testing::small_corpus;
using testing::whole_run;
using testing::WholeRun;

// `before` and `after` steps with these numbers of threads, a checkpoint between them.
WholeRun interrupted_run(const TrainOptions& o, int threads_before, int64_t before, int threads_after,
                         int64_t after, const Corpus& corpus = small_corpus()) {
  const testing::TemporaryFolder folder;
  WholeRun run;
  {
    ThreadPool pool(threads_before);
    Trainer trainer(small_config(o), o, corpus, pool);
    run.losses = run_steps(trainer, before);
    trainer.save(folder.path(), options_to_json(o));
    run_steps(trainer, 1);  // lost with the process
  }
  ThreadPool pool(threads_after);
  TrainOptions stored;
  const Path checkpoint = find_checkpoint(folder.path()).value();
  options_from_json(read_checkpoint_state(checkpoint).options_json, "state.json", stored);
  Trainer trainer(small_config(stored), stored, corpus, pool);
  run_steps(trainer, 1);  // must leave no trace, nor must what a failed step left
  trainer.parameters().items()[0].weight->gradient.f32()[0] = 1;
  trainer.resume(checkpoint);
  EXPECT_EQ(trainer.steps_done(), before);
  for (const double loss : run_steps(trainer, after)) run.losses.push_back(loss);
  run.validation = trainer.evaluate().loss_nats;
  run.state = run_state(trainer);
  return run;
}

TEST(Resume, EqualsNeverStopped) {
  const TrainOptions o = dropout_options();
  const WholeRun straight = whole_run(o, 1, 7);
  for (const auto& [before, after] : {std::pair(1, 1), std::pair(1, 4), std::pair(4, 2)}) {
    const WholeRun stopped = interrupted_run(o, before, 3, after, 4);
    EXPECT_EQ(stopped.losses, straight.losses);
    EXPECT_EQ(stopped.validation, straight.validation);
    testing::expect_same_bits("weights and moments", stopped.state, straight.state);
  }
}

// The blocks of other models, all at once and with documents that do not see each other.
TEST(Resume, HoldsForEveryVariantOfTheBlock) {
  TrainOptions llama = dropout_options();
  llama.arch = "llama", llama.heads = 4, llama.kv_heads = 2, llama.channels = 32;
  TrainOptions everything = llama;
  everything.window = 5, everything.softcap = 30, everything.logit_softcap = 20, everything.z_loss = 1e-3f;
  everything.qk_norm = everything.sinks = everything.parallel_residual = everything.document_mask = true;
  for (const TrainOptions& o : {llama, everything}) {
    const WholeRun straight = whole_run(o, 1, 5);
    const WholeRun stopped = interrupted_run(o, 2, 2, 3, 3);
    EXPECT_EQ(stopped.losses, straight.losses);
    EXPECT_EQ(stopped.validation, straight.validation);
    testing::expect_same_bits("weights and moments", stopped.state, straight.state);
  }
  TrainOptions seen = everything;
  seen.document_mask = false;
  EXPECT_NE(whole_run(everything, 1, 1).losses, whole_run(seen, 1, 1).losses);
}

TEST(Resume, HoldsForEveryOptimizer) {
  TrainOptions halves = testing::small_options();
  halves.moments = "bf16";
  TrainOptions averaged = testing::small_options();
  averaged.ema = 0.9f, averaged.label_smoothing = 0.1f;
  TrainOptions muon = testing::small_options();
  muon.optimizer = "muon", muon.schedule = "wsd";
  TrainOptions everything = muon;
  everything.ema = 0.5f, everything.moments = "bf16";
  std::vector<std::vector<double>> all;
  for (const TrainOptions& o : {testing::small_options(), halves, averaged, muon, everything}) {
    const WholeRun straight = whole_run(o, 1, 5);
    const WholeRun stopped = interrupted_run(o, 2, 2, 3, 3);
    EXPECT_EQ(stopped.losses, straight.losses);
    EXPECT_EQ(stopped.validation, straight.validation);
    testing::expect_same_bits("weights and state", stopped.state, straight.state);
    for (const auto& losses : all) EXPECT_NE(losses, straight.losses);
    all.push_back(straight.losses);
  }
}

Corpus mixed_corpus() {
  Corpus first = small_corpus(), second = small_corpus(17, 300, 100);
  std::reverse(second.train.begin(), second.train.end());
  first.fingerprint = "a", second.fingerprint = "b";
  std::vector<Corpus> sources;
  sources.push_back(std::move(first));
  sources.push_back(std::move(second));
  return mix_corpora(std::move(sources), {5, 3});
}

// Over several epochs of the smaller source.
TEST(Resume, HoldsForEpochsAndMixtures) {
  TrainOptions o = dropout_options();
  std::vector<std::vector<double>> all;
  for (const std::string sampling : {"random", "epochs"}) {
    for (const bool mixed : {false, true}) {
      o.sampling = sampling;
      const Corpus corpus = mixed ? mixed_corpus() : small_corpus();
      const WholeRun straight = whole_run(o, 1, 9, corpus);
      EXPECT_EQ(whole_run(o, 2, 9, corpus).losses, straight.losses);
      const WholeRun stopped = interrupted_run(o, 2, 4, 1, 5, corpus);
      EXPECT_EQ(stopped.losses, straight.losses);
      EXPECT_EQ(stopped.validation, straight.validation);
      testing::expect_same_bits("weights and moments", stopped.state, straight.state);
      for (const auto& losses : all) EXPECT_NE(losses, straight.losses);
      all.push_back(straight.losses);
    }
  }
}

// Epochs go on in their order: the same rows, in sums of another order.
TEST(Resume, EpochsGoOnWithStepsOfOtherBatches) {
  TrainOptions wide = testing::small_options(), narrow = wide, odd = wide;
  wide.batch = 8;
  narrow.accumulate = 2;
  odd.batch = 5;
  for (const std::string sampling : {"epochs", "random"}) {
    wide.sampling = narrow.sampling = odd.sampling = sampling;
    const testing::TemporaryFolder folder;
    const Corpus corpus = mixed_corpus();
    SerialExecutor executor;
    Trainer first(small_config(wide), wide, corpus, executor);
    run_steps(first, 3);
    first.save(folder.path(), "");
    const Path checkpoint = find_checkpoint(folder.path()).value();
    EXPECT_EQ(read_checkpoint_state(checkpoint).position.rows, 24);
    Trainer second(small_config(odd), odd, corpus, executor);
    if (sampling == "random") {
      testing::expect_contains(testing::error_of(ErrorKind::kUse, [&] { second.resume(checkpoint); }),
                               "3 steps of 8 rows");
      continue;
    }
    second.resume(checkpoint);
    run_steps(second, 1);
    second.save(folder.path(), "");
    EXPECT_EQ(read_checkpoint_state(find_checkpoint(folder.path()).value()).position.rows, 29);
    Trainer third(small_config(narrow), narrow, corpus, executor);
    third.resume(checkpoint);
    const std::vector<double> expected = run_steps(first, 4), losses = run_steps(third, 4);
    for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5 * expected[i]) << i;
  }
}

// A run of wsd that is stopped before it decays and then made longer is the longer run.
TEST(Resume, WithMoreStepsOfWsdEqualsTheLongerRun) {
  TrainOptions o = testing::small_options();
  o.schedule = "wsd", o.steps = 10, o.warmup = 2;
  TrainOptions longer = o;
  longer.steps = 20;
  const WholeRun straight = whole_run(longer, 1, 20);
  EXPECT_NE(whole_run(o, 1, 10).losses, std::vector(straight.losses.begin(), straight.losses.begin() + 10));
  const testing::TemporaryFolder folder;
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer first(small_config(o), o, corpus, executor);
  run_steps(first, 8);
  first.save(folder.path(), "");
  Trainer second(small_config(longer), longer, corpus, executor);
  second.resume(find_checkpoint(folder.path()).value());
  run_steps(second, 12);
  testing::expect_same_bits("weights and moments", run_state(second), straight.state);
}

TEST(Resume, AMomentOfAnotherTypeIsRefused) {
  const testing::TemporaryFolder folder;
  TrainOptions o = testing::small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer whole(small_config(o), o, corpus, executor);
  whole.save(folder.path(), "");
  o.moments = "bf16";
  Trainer half(small_config(o), o, corpus, executor);
  const std::string message =
      testing::error_of(ErrorKind::kData, [&] { half.resume(find_checkpoint(folder.path()).value()); });
  testing::expect_contains(message, "dtype F32 where BF16 is expected");
}

TEST(Resume, KeepsTheBestValidationLoss) {
  const testing::TemporaryFolder folder;
  const TrainOptions o = testing::small_options();
  const Corpus corpus = small_corpus();
  SerialExecutor executor;
  Trainer trainer(small_config(o), o, corpus, executor);
  trainer.step();
  const double best = trainer.evaluate().loss_nats;
  trainer.save(folder.path(), "");
  Trainer other(small_config(o), o, corpus, executor);
  other.resume(find_checkpoint(folder.path()).value());
  EXPECT_EQ(other.watch().best_validation_loss, best);
  EXPECT_EQ(read_checkpoint_state(find_checkpoint(folder.path()).value()).options_json, "null");
}

}  // namespace
}  // namespace tril
