// What `tril train` says besides its progress line: the plan before, the summary after.
#pragma once

#include <string>

#include "cli/train_setup.h"
#include "tril/train/trainer.h"

namespace tril::cli {

void print_plan(const TrainArguments& arguments, const TrainRun& run);

// tril generate DIR --prompt WORD, as one types it.
std::string generate_line(const TrainArguments& arguments, const TrainRun& run);

void print_already_finished(const TrainArguments& arguments, const TrainRun& run);

}  // namespace tril::cli
