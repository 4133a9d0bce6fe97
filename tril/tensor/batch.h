// Batch: what one training or evaluation step reads. Plain windows of text are the simple case; packed
// documents, padding and instruction tuning fill the optional fields.
#pragma once

#include <cstdint>

namespace tril {

struct Batch {
  int64_t batch = 0;                   // B
  int64_t time = 0;                    // T
  const int32_t* tokens = nullptr;     // (B, T)
  const int32_t* targets = nullptr;    // (B, T): the token after each; already shifted, never shifted again
  const int32_t* positions = nullptr;  // (B, T), or null: 0 .. T-1 in each row
  const int32_t* documents =
      nullptr;  // (B, T), or null: one document a row. A token sees its own document only; negative: padding
  const int32_t* prefix = nullptr;  // (B), or null: the first prefix[b] tokens of a row are seen by all of it
  const uint8_t* loss_mask = nullptr;  // (B, T), or null: every target counts
  int64_t counted_targets = 0;         // the denominator of the mean loss, over all micro-batches of a step
  int64_t rows() const { return batch * time; }  // N
};

}  // namespace tril
