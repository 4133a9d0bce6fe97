// Dropout with a counter-based mask: Srivastava et al. (2014). Nothing is stored: backward draws the same
// mask.
//
// Element i is dropped if RandomStream(key, substream) word i < probability * 2^32; survivors are scaled by
// 1 / (1 - probability). The word of element i is bits(i) of base/random.h with this key and substream.
#pragma once

#include "tril/base/parallel.h"

namespace tril {

struct DropoutMask {
  float probability = 0;   // in [0, 1)
  uint64_t key = 0;        // of seed, site name and step: nn/context.h
  uint64_t substream = 0;  // the layer
};

// y = x * mask / (1 - p). y may be x. The same call with dy is the backward pass.
void dropout(Executor& executor, const DropoutMask& mask, int64_t count, const float* x, float* y);
// One thread: elements [first, first + count) of a larger array, for matmul epilogues; x and y point at
// element `first`.
void dropout_row(const DropoutMask& mask, int64_t first, int64_t count, const float* x, float* y);

}  // namespace tril
