// Steps of the small run from begin to end, and all that comes of them.
#pragma once

#include "tests/train/small_run.h"

namespace tril::testing {

inline TrainOptions dropout_options() {
  TrainOptions o = small_options();
  o.dropout = 0.2f;
  o.accumulate = 2;
  return o;
}

struct WholeRun {
  std::vector<double> losses;
  std::vector<float> state;
  double validation = 0;
};

inline WholeRun whole_run(const TrainOptions& o, int threads, int64_t steps,
                          const Corpus& corpus = small_corpus()) {
  ThreadPool pool(threads);
  Trainer trainer(small_config(o), o, corpus, pool);
  WholeRun run;
  run.losses = run_steps(trainer, steps);
  run.validation = trainer.evaluate().loss_nats;
  run.state = run_state(trainer);
  return run;
}

}  // namespace tril::testing
