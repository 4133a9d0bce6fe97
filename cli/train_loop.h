// The training loop of the command: steps, validation, samples, saves, log, and stopping on request.
#pragma once

#include "cli/train_setup.h"
#include "tril/train/trainer.h"

namespace tril::cli {

// Returns the exit code.
int run_training(const TrainArguments& arguments, TrainRun& run, Executor& executor);

}  // namespace tril::cli
