// Numbers as a stored type holds them.
#pragma once

#include <span>
#include <vector>

#include "tril/tensor/quantized.h"

namespace tril::testing {

// x: whole blocks of the type.
inline void round_to(DType type, std::span<float> x) {
  std::vector<std::byte> stored(static_cast<size_t>(dtype_bytes(type, std::ssize(x))));
  quantize_row(type, std::ssize(x), x.data(), stored.data());
  dequantize_row(type, std::ssize(x), stored.data(), x.data());
}

}  // namespace tril::testing
