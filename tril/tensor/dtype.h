// Element types of tensors, views and files. f32 computes; the weights of products may be stored as
// f16, bf16 or GGML's block-quantised types, whose blocks of 32 elements share a scale.
#pragma once

#include <cstdint>
#include <string_view>

#include "tril/base/sizes.h"

namespace tril {

enum class DType : uint8_t { kF32, kF64, kF16, kBF16, kI8, kU8, kI16, kU16, kI32, kI64, kQ8_0, kQ4_0, kQ4_1 };

struct DTypeInfo {
  std::string_view name;   // "f32", "q8_0", ...
  int64_t block_elements;  // 1 unless block-quantised
  int64_t block_bytes;
};

const DTypeInfo& dtype_info(DType dtype);

// Bytes of `count` elements; throws kUse if count is not a whole number of blocks.
int64_t dtype_bytes(DType dtype, int64_t count);

}  // namespace tril
