// The engines behind matmul.h: each computes one block of a product in the calling thread.
#pragma once

#include "tril/kernels/matmul.h"

namespace tril {

// Register tiles on Google Highway. Copies operands into small per-thread buffers only where they are reused
// enough to pay for it.
void matmul_tiles(const Product& block);

// Few rows times a stored transpose, y = x W^T: dot products along K, nothing copied. m <= kFewRows.
constexpr int64_t kFewRows = 4;
void matmul_few_rows(const Product& block);

// c_j += sum_p partials[p * stride + j], in the order of p.
void matmul_add_partials(int64_t count, int64_t partials, const float* partial, int64_t stride, float* c);

#ifdef TRIL_ONEDNN
void matmul_onednn(const Product& block);
const char* onednn_version();
#endif

}  // namespace tril
