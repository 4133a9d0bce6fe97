// A checkpoint is a step folder, complete or absent:
//
//   <run>/steps/00000500/  weights.safetensors  optimizer.safetensors  state.json  manifest.json
//
// Everything is written into a temporary folder beside it, fsynced, the manifest (sizes and CRC-32 of the
// other files) last; then the folder is renamed into place. The last good one always survives.
#pragma once

#include <optional>
#include <string>

#include "tril/nn/parameter.h"
#include "tril/train/optimizer.h"

namespace tril {

struct CheckpointState {
  int64_t step = 0;  // steps done
  double best_validation_loss = 0;
  std::string options_json;  // the run's resolved options, and fingerprints of data and tokenizer
};

// Writes and then removes all but the newest `keep` folders.
void save_checkpoint(const Path& run, const Parameters& parameters, const Optimizer& optimizer,
                     const CheckpointState& state, int64_t keep);

// The newest step folder whose manifest holds; damaged ones are passed over and named in *passed_over.
std::optional<Path> find_checkpoint(const Path& run, std::vector<std::string>* passed_over = nullptr);
CheckpointState read_checkpoint_state(const Path& folder);
// Fills weights and moments; throws kData naming file, tensor and shapes.
void load_checkpoint(const Path& folder, Parameters& parameters, Optimizer& optimizer);

}  // namespace tril
