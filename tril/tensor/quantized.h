// Floats as files keep them: halves, and GGML's blocks of 32 that share a scale. Plain loops that give the
// bits of GGML's reference; https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c
//
//   f16, bf16   the nearest one, of two equally near ones the one whose last bit is 0
//   q8_0        d = max|x| / 127,             q = round(x / d);             x = d q
//   q4_0        d = (x of the largest |x|) / -8, q = min(15, x / d + 8.5);  x = d (q - 8)
//   q4_1        d = (max - min) / 15, m = min,   q = min(15, (x - m) / d + 0.5);  x = d q + m
//
// A block is d (f16), for q4_1 m (f16), then the 32 numbers q: a byte each, or byte j of 16 has number j in
// its lower and j + 16 in its upper half.
#pragma once

#include <cstddef>

#include "tril/tensor/dtype.h"

namespace tril {

float float_of_f16(uint16_t bits);
uint16_t f16_of_float(float x);  // too large: infinity; a NaN stays one
float float_of_bf16(uint16_t bits);
uint16_t bf16_of_float(float x);

// Whether the functions below know this type: f32, f64, f16, bf16, q8_0, q4_0, q4_1.
bool holds_floats(DType dtype);

// y (count) of x, which need not be aligned; count is a whole number of blocks. Throws kUse for other types.
void dequantize_row(DType dtype, int64_t count, const std::byte* x, float* y);

// y of x (count). Throws kNumerics for values that the type cannot hold: NaN and infinity in blocks, and what
// is beyond the range of its f16. f32, bf16 and f64 take everything.
void quantize_row(DType dtype, int64_t count, const float* x, std::byte* y);

}  // namespace tril
