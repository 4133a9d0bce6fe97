// An array of a file that is being written: floats that are somewhere, made as they are needed.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

#include "tril/base/function_ref.h"
#include "tril/tensor/view.h"

namespace tril {

struct StreamedArray {
  std::string name;
  DType dtype = DType::kF32;  // that it is written as: one that holds floats
  Shape shape;                // rank 1 or 2; a vector's elements are its rows
  std::function<void(int64_t first, int64_t count, float* out)> read;  // rows, in order from the first one
};

// Calls take(bytes) for piece after piece of the array, in its type. Throws kNumerics naming the array for
// values that the type cannot hold.
void for_each_piece(const StreamedArray& array, FunctionRef<void(std::span<const std::byte>)> take);

}  // namespace tril
