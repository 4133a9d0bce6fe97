// What a run's folder holds beside its checkpoints and log: the model, and run.json, which says how it was
// made: all options, the hashes of text, tokenizer and first weights, and every command.
#pragma once

#include "cli/train_setup.h"

namespace tril::cli {

// run.json, and the tokenizer, which a run of --from needs to go on: before its first save.
void write_run_description(const TrainRun& run);

// The model with these weights.
void write_model(const TrainRun& run, const Parameters& parameters);

// The save whose weights the finished model has, by --final-model. `last` is the newest save.
Path final_save(const TrainRun& run, const Path& last);

// Of a finished run: writes what is not there, not whole, or of another save than --final-model asks for.
void complete_run_folder(const TrainRun& run);

}  // namespace tril::cli
