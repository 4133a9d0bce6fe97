#include "tril/kernels/stored_rows.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/stored_rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/stored_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

void widen_here(DType dtype, int64_t count, const std::byte* x, float* y) { widen(dtype, count, x, y); }

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(widen_here);

StoredRows::StoredRows(const ConstView& matrix)
    : data(matrix.data), dtype(matrix.dtype), stride(dtype_bytes(matrix.dtype, matrix.shape[1])) {}

const std::byte* StoredRows::at(int64_t row, int64_t column) const {
  const DTypeInfo& info = dtype_info(dtype);
  return data + row * stride + column / info.block_elements * info.block_bytes;
}

bool is_quantized(DType dtype) {
  return dtype == DType::kQ8_0 || dtype == DType::kQ4_0 || dtype == DType::kQ4_1;
}

bool multiplies(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 || is_quantized(dtype);
}

void widen_row(DType dtype, int64_t count, const std::byte* x, float* y) {
  HWY_DYNAMIC_DISPATCH(widen_here)(dtype, count, x, y);
}

}  // namespace tril
#endif
