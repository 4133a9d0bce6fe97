// How long a training step will take, before it is run.
#pragma once

#include "tril/train/options.h"

namespace tril {

struct StepTime {       // seconds of one optimizer step, all micro-batches
  double products = 0;  // matrix products, those that checkpointing repeats included
  double attention = 0;
  double rows = 0;     // norms, activations, dropout, loss: passes over rows
  double weights = 0;  // the optimizer, and gradients read and written for each micro-batch
  double regions = 0;  // starting and ending parallel work
  double total() const { return products + attention + rows + weights + regions; }
};

// `gflops`: of a large product on all threads (measure_matmul_gflops). Everything is counted in operations of
// that product: its own at its speed, what is bound by memory or by other arithmetic at the number of them
// that takes as long. docs/performance.md has the steps that the constants were fitted to, and how far off
// they are.
StepTime expected_step_time(const TransformerConfig& config, const TrainOptions& options, double gflops);

}  // namespace tril
