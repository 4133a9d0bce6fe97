// The engines behind matmul.h: each computes one block of a product in the calling thread.
#pragma once

#include "tril/kernels/matmul.h"

namespace tril {

// Register tiles on Google Highway. Copies operands into small per-thread buffers only where they are reused
// enough to pay for it.
void matmul_tiles(const Product& block);

// A pass of tiles multiplies at most kPassRows x kPassDepth of A by kPassDepth x kPassColumns of B; the
// copies of both stay in the second-level cache.
constexpr int64_t kPassRows = 384;
constexpr int64_t kPassColumns = 384;
constexpr int64_t kPassDepth = 256;
// Rows of a copy are this many floats longer, so that they do not fall on the same cache set.
constexpr int64_t kPassPadding = 16;

// Columns of B that are copied at once, at most.
constexpr int64_t kPanelColumns = 48;

struct PassBuffers {
  alignas(64) float a[kPassRows * (kPassDepth + kPassPadding)];
  alignas(64) float b[kPassDepth * kPassColumns];
  alignas(64) float stored[kPanelColumns * (kPassDepth + kPassPadding)];  // rows of a stored B as floats
};
PassBuffers& pass_buffers();  // this thread's

// Few rows times a stored transpose, y = x W^T: dot products along K, nothing copied; W f32, f16 or bf16. m
// <= kFewRows.
constexpr int64_t kFewRows = 4;
void matmul_few_rows(const Product& block);

#ifdef TRIL_ONEDNN
void matmul_onednn(const Product& block);
const char* onednn_version();
#endif

}  // namespace tril
