#include "tril/interop/bound_weights.h"

#include <algorithm>
#include <cstring>

#include "tril/kernels/stored_rows.h"

namespace tril {
namespace {

// Where the rows of a part are.
struct PartRows {
  ArrayPart part;
  const StoredArray* array;
};

// Are the rows of the array there as a product reads them, one behind the other?
bool has_plain_rows(const ArrayPart& part, const StoredArray& array) {
  const bool aligned =
      array.dtype != DType::kF32 || reinterpret_cast<uintptr_t>(array.data) % alignof(float) == 0;
  return aligned && multiplies(array.dtype) && array.strides.empty() && !part.transposed;
}

// The parts of a matrix of products, or none where they have no common type or are not whole rows.
std::vector<PartRows> plain_parts(const StoredArrays& arrays, const ArraysByName& by_name,
                                  const Layout& layout, const ParameterInfo& info) {
  std::vector<PartRows> out;
  if (!info.product) return out;
  for (const ArrayPart& part : layout.parts(info)) {
    if (!by_name.contains(part.array)) return {};  // checked: it may be absent
    const StoredArray& array = require_array(arrays, by_name, part.array);
    if (!has_plain_rows(part, array) || (!out.empty() && out.front().array->dtype != array.dtype)) return {};
    out.push_back({part, &array});
  }
  return out;
}

bool is_whole(const PartRows& rows, const ParameterInfo& info) {
  return rows.part.order == HeadOrder::kSame && rows.part.first_row == 0 && rows.array->shape == info.shape;
}

void copy_rows(const std::vector<PartRows>& parts, const View& out) {
  const StoredRows to(out);
  int64_t row = 0;
  for (const PartRows& p : parts) {
    const StoredRows from(ConstView(p.array->data, p.array->dtype, p.array->shape));
    for (int64_t r = 0; r < p.part.rows; ++r, ++row) {
      std::memcpy(out.data + row * to.stride, from.at(p.part.first_row + row_in_array(p.part, r), 0),
                  static_cast<size_t>(to.stride));
    }
  }
}

}  // namespace

void bind_weights(const StoredArrays& arrays, const Layout& layout, Parameters& parameters) {
  const StoredWeights weights(arrays, layout);
  const ArraysByName by_name = arrays_by_name(arrays);
  for (const Parameters::Item& item : parameters.items()) {
    const std::vector<PartRows> parts = plain_parts(arrays, by_name, layout, item.info);
    if (parts.size() == 1 && is_whole(parts.front(), item.info)) {
      const StoredArray& array = *parts.front().array;
      parameters.bind(item, ConstView(array.data, array.dtype, array.shape));
    } else if (!parts.empty()) {
      copy_rows(parts, parameters.allocate(item, parts.front().array->dtype));
    } else {
      weights.read(item.info, 0, item.info.shape[0], parameters.allocate(item, DType::kF32).f32());
    }
  }
}

LoadedModel load_model_as_stored(StoredModel stored) {
  LoadedModel out = without_weights(stored, Parameters::Memory::kUnbound);
  out.files = stored.arrays.owners;
  bind_weights(stored.arrays, stored.layout, *out.parameters);
  return out;
}

LoadedModel load_model_as_stored(const Path& path) { return load_model_as_stored(open_model(path)); }

}  // namespace tril
