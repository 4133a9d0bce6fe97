// The training loop of the command: steps, validation, samples, saves, log, and stopping on request.
#pragma once

#include "cli/train_setup.h"
#include "tril/train/trainer.h"

namespace tril::cli {

// A run that ended between its last save and the model's files gets them from that save.
void complete_model_folder(const TrainRun& run, Executor& executor);

// Returns the exit code.
int run_training(const TrainArguments& arguments, TrainRun& run, Executor& executor);

}  // namespace tril::cli
