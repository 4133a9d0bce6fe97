// A checkpoint is a step folder, complete or absent:
//
//   <run>/steps/00000500/  weights.safetensors  optimizer.safetensors  state.json  manifest.json
//
// Everything is written into a temporary folder beside it, fsynced, the manifest (sizes and CRC-32 of the
// other files) last; then the folder is renamed into place. The last good one always survives.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "tril/base/files.h"
#include "tril/data/sampler.h"
#include "tril/nn/parameter.h"
#include "tril/train/optimizer.h"
#include "tril/train/watch.h"

namespace tril {

struct CheckpointState {
  int64_t step = 0;              // steps done
  SamplerPosition position{-1};  // of the next step's first row; -1: not kept, by an older tril
  WatchState watch;
  // The save with the lowest validation loss so far; -1: none was made at a step with a validation.
  int64_t best_save_step = -1;
  double best_save_loss = std::numeric_limits<double>::infinity();
  std::string options_json;  // a JSON value of the caller's: the run's options, fingerprints of its data
};

Path checkpoint_folder(const Path& run, int64_t step);

// Writes and then removes all but the newest `keep` folders and the best. If writing fails (a full disk),
// what was written is removed, the older checkpoints stay, and kData is thrown.
void save_checkpoint(const Path& run, const Parameters& parameters, const Optimizer& optimizer,
                     const CheckpointState& state, int64_t keep);

// The newest step folder whose manifest holds; damaged ones are passed over and named in *passed_over.
std::optional<Path> find_checkpoint(const Path& run, std::vector<std::string>* passed_over = nullptr);
// Why a step folder cannot be used, or "": manifest missing or unreadable, files missing, sizes or checksums
// that differ.
std::string checkpoint_damage(const Path& folder);
CheckpointState read_checkpoint_state(const Path& folder);
// Fills weights and moments; throws kData naming file, tensor and shapes.
void load_checkpoint(const Path& folder, Parameters& parameters, Optimizer& optimizer);
// The weights of the finished model: the averages of --ema if the checkpoint has them.
void load_checkpoint_model(const Path& folder, const Parameters& parameters);

}  // namespace tril
