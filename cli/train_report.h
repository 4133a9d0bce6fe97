// What `tril train` says besides its progress line: the plan before, the summary after.
#pragma once

#include <string>

#include "cli/train_setup.h"
#include "tril/containers/json.h"
#include "tril/train/step_time.h"
#include "tril/train/trainer.h"

namespace tril::cli {

// What a run will take.
struct Plan {
  Trainer::Memory memory;
  int64_t total_bytes = 0;  // with what the process has before
  int64_t parameters = 0, step_tokens = 0, steps_left = 0;
  double step_flops = 0;        // of the model
  double recomputed_flops = 0;  // and what checkpointing computes again
  StepTime step;
  double tokens_per_second = 0, seconds = 0;
};
Plan make_plan(const TrainArguments& arguments, const TrainRun& run);
// The lines "data" to "machine"; and the same as JSON.
std::string plan_text(const TrainArguments& arguments, const TrainRun& run, const Plan& plan);
Json plan_json(const TrainArguments& arguments, const TrainRun& run, const Plan& plan);

void print_plan(const TrainArguments& arguments, const TrainRun& run);

// tril generate DIR --prompt WORD, as one types it.
std::string generate_line(const TrainArguments& arguments, const TrainRun& run);

void print_already_finished(const TrainArguments& arguments, const TrainRun& run);

}  // namespace tril::cli
