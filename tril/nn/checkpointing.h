// Activation checkpointing: what forward keeps for backward, and what backward computes again from that. The
// gradients are the same to the bit, since the recomputation is the same code on the same numbers and dropout
// masks are functions of their counters. Chen et al. "Training deep nets with sublinear memory cost" (2016);
// Korthikanti et al. "Reducing activation recomputation in large transformer models" (2022) on "selective".
#pragma once

#include <string_view>

namespace tril {

enum class Checkpointing {
  kNone,       // keeps what products computed; only what is cheap is computed again
  kSelective,  // not the MLP's hidden layer, the largest: one product more in backward (gated: two)
  kBlock,      // the stream before each block alone; backward runs each block's forward again
};

// Throws kUse, naming what is possible, for unknown names.
std::string_view name_of(Checkpointing checkpointing);  // "none", "selective", "block"
void from_name(std::string_view name, Checkpointing& out);

}  // namespace tril
