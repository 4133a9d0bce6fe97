#include "tril/containers/streamed_array.h"

#include <algorithm>
#include <vector>

#include "tril/base/printable.h"
#include "tril/tensor/quantized.h"

namespace tril {

void for_each_piece(const StreamedArray& array, FunctionRef<void(std::span<const std::byte>)> take) {
  constexpr int64_t kElements = 1 << 18;  // of a piece, about
  const int64_t rows = array.shape[0], columns = array.shape.rank() == 2 ? array.shape[1] : 1;
  const int64_t step = std::max<int64_t>(kElements / std::max<int64_t>(columns, 1), 1);
  std::vector<float> floats(static_cast<size_t>(std::min(step, rows) * columns));
  std::vector<std::byte> bytes(static_cast<size_t>(dtype_bytes(array.dtype, std::ssize(floats))));
  for (int64_t first = 0; first < rows; first += step) {
    const int64_t count = std::min(step, rows - first), elements = count * columns;
    array.read(first, count, floats.data());
    try {
      quantize_row(array.dtype, elements, floats.data(), bytes.data());
    } catch (const Error& error) {
      fail(error.kind(), "tensor {}: {}", printable(array.name), error.what());
    }
    take(std::span<const std::byte>(bytes).first(static_cast<size_t>(dtype_bytes(array.dtype, elements))));
  }
}

}  // namespace tril
