// Few rows times block-quantised rows, y = x W^T, in integers: each block of 32 elements of x becomes 16-bit
// numbers a with a scale s, x = s a, and its part of a dot product is s d sum_i a_i q_i (tensor/quantized.h),
// with s m sum_i a_i added for q4_1 and q - 8 for q in q4_0.
//
// 16 bits, where GGML has 8: the numbers of W are widened to 16 bits for the product in any case, so the
// finer x costs nothing. It is rounded to 1/65,534 of its block's largest element, 1/3,854 for the 4-bit
// types.
#pragma once

#include "tril/kernels/matmul.h"

namespace tril {

constexpr int64_t kBlockElements = 32;
// Of x: in 16 bits; 17 times as much in 16 bits for nibbles (stored_blocks-inl.h).
constexpr float kLargestNumber = 32767, kLargestOfNibbles = 1927;

// More rows than this are faster as floats (matmul_tiles).
constexpr int64_t kFewQuantizedRows = 4;

// x (m, k) in blocks.
struct QuantizedRows {
  int64_t blocks;    // in a row
  int64_t padded;    // rows of scales and sums are longer, with zeros
  int16_t* numbers;  // (m, k)
  float* scales;     // (m, padded)
  float* sums;       // (m, padded): scale times the sum of the numbers
};

// Floats of workspace.
int64_t quantized_rows_workspace(int64_t m, int64_t k);

// The product `p`, whose `stored` is quantised; m at most kFewQuantizedRows.
void matmul_quantized(Executor& executor, const Product& p, float* workspace, Epilogue epilogue);

}  // namespace tril
