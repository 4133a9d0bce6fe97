#include "tril/tensor/dtype.h"

#include <array>

namespace tril {

const DTypeInfo& dtype_info(DType dtype) {
  static constexpr std::array<DTypeInfo, 13> kInfo = {{{"f32", 1, 4},
                                                       {"f64", 1, 8},
                                                       {"f16", 1, 2},
                                                       {"bf16", 1, 2},
                                                       {"i8", 1, 1},
                                                       {"u8", 1, 1},
                                                       {"i16", 1, 2},
                                                       {"u16", 1, 2},
                                                       {"i32", 1, 4},
                                                       {"i64", 1, 8},
                                                       {"q8_0", 32, 34},
                                                       {"q4_0", 32, 18},
                                                       {"q4_1", 32, 20}}};
  return kInfo[static_cast<size_t>(dtype)];
}

int64_t dtype_bytes(DType dtype, int64_t count) {
  const DTypeInfo& info = dtype_info(dtype);
  check_use(count >= 0 && count % info.block_elements == 0,
            "dtype {}: {} elements are not a whole number of blocks of {}", info.name, count,
            info.block_elements);
  return checked_multiply(count / info.block_elements, info.block_bytes);
}

}  // namespace tril
