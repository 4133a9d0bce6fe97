// The memory of the machine against what a run would take.
#pragma once

#include <string>

#include "tril/train/options.h"

namespace tril::cli {

// Bytes that this process may still use: of the machine and of its control group.
double available_memory();

// Throws kUse with the memory a run would take (Trainer::plan_memory) and a size that fits, before anything
// of that size exists.
void check_memory(const TransformerConfig& config, const TrainOptions& options, int threads);

// The same for sizes of which some are still to be chosen: those count as small. Before text is read and
// sizes are chosen, so that an impossible one fails at once.
void check_given_sizes(const TrainOptions& options, int threads);

}  // namespace tril::cli
