// --from: a run that starts from the weights of a model, and takes its shape, its block and its tokenizer.
#pragma once

#include "cli/train_setup.h"
#include "tril/containers/json.h"

namespace tril::cli {

// Reads the model of run.options.from: sets the options that a model decides, config, tokenizer and
// start_model. Throws kUse naming the given options that want another model; kData if it cannot be read.
void load_start_model(const TrainArguments& arguments, TrainRun& run);

// For a run that goes on: config and tokenizer from its own folder and `stored`, the identity in its
// checkpoint. Throws kUse if --from was another.
void restore_start_model(const Json& stored, TrainRun& run);

}  // namespace tril::cli
