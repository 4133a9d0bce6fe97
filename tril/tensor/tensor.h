// Tensor owns one block of memory, 64-byte aligned and zeroed.
#pragma once

#include <memory>

#include "tril/tensor/view.h"

namespace tril {

// Zeroed, 64-byte aligned bytes; throws kUse when the machine has no such memory.
struct AlignedFree {
  void operator()(std::byte* p) const;
};
using AlignedBytes = std::unique_ptr<std::byte[], AlignedFree>;
AlignedBytes allocate_aligned(int64_t bytes);

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(const Shape& shape, DType dtype = DType::kF32)
      : bytes_(allocate_aligned(dtype_bytes(dtype, shape.elements()))), view_(bytes_.get(), dtype, shape) {}

  const Shape& shape() const { return view_.shape; }
  View view() { return view_; }
  ConstView view() const { return view_; }
  float* f32() { return view_.f32(); }
  const float* f32() const { return view_.f32(); }
  int64_t elements() const { return view_.elements(); }
  operator View() { return view_; }             // NOLINT: a Tensor is passed where a View is asked for
  operator ConstView() const { return view_; }  // NOLINT

 private:
  AlignedBytes bytes_;
  View view_;
};

}  // namespace tril
