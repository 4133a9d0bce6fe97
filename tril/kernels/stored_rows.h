// Weight matrices as they are stored: f32, or smaller: f16, bf16, or GGML's blocks of 32
// (tensor/quantized.h). Products read them where they lie, a mapped file included; nothing needs to be
// aligned.
#pragma once

#include <cstddef>

#include "tril/tensor/view.h"

namespace tril {

struct StoredRows {
  const std::byte* data = nullptr;
  DType dtype = DType::kF32;
  int64_t stride = 0;  // bytes from one row to the next

  StoredRows() = default;
  // Of a contiguous matrix (rows, columns).
  explicit StoredRows(const ConstView& matrix);
  explicit operator bool() const { return data != nullptr; }
  // Element (row, column); column begins a block.
  const std::byte* at(int64_t row, int64_t column) const;
};

// The types that a matrix of products may have.
bool multiplies(DType dtype);
// q8_0, q4_0, q4_1.
bool is_quantized(DType dtype);

// y (count) = the floats of x (count), for types that multiply. The same bits as dequantize_row.
void widen_row(DType dtype, int64_t count, const std::byte* x, float* y);

}  // namespace tril
