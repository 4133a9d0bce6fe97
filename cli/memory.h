// The memory of the machine against what a run would take.
#pragma once

#include <string>

#include "tril/train/options.h"

namespace tril::cli {

// Bytes that this process may still use: of the machine and of its control group.
double available_memory();

// An estimate from the sizes alone, in double so that no size overflows it: parameters, gradients and moments
// (16 bytes a parameter) and what the layers keep of a micro-batch.
double estimate_training_bytes(const TransformerConfig& config, int64_t batch);

// Throws kUse with the memory a run would take and a size that fits, before anything of that size exists.
void check_memory(const TransformerConfig& config, int64_t batch);

// The same for sizes of which some are still to be chosen: those count as small. Before text is read and
// sizes are chosen, so that an impossible one fails at once.
void check_given_sizes(const TrainOptions& options);

}  // namespace tril::cli
