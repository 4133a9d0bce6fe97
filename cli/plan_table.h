// What each layer of a model keeps for backward, and what is computed again: a table.
#pragma once

#include <string>
#include <vector>

#include "tril/train/options.h"

namespace tril::cli {

struct KeptRow {
  std::string what;   // "query, key, value"
  std::string shape;  // "(N, 3C)"
  int64_t bytes = 0;  // of one layer
  std::string how;    // "kept", or from what it is computed again
  bool kept = false;
};

struct KeptTable {
  std::vector<KeptRow> rows;
  int64_t layer_bytes = 0;   // of each layer
  int64_t shared_bytes = 0;  // of all layers together: the state of the block that is computed again
};
// Sizes as the layers themselves lay them out.
KeptTable kept_table(const TransformerConfig& config, const TrainOptions& options);
std::string kept_text(const KeptTable& table, int64_t layers);

}  // namespace tril::cli
