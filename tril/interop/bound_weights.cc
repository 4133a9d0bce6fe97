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

void bind_weights(const StoredArrays& arrays, const Layout& layout, Parameters& parameters,
                  Executor& executor) {
  const StoredWeights weights(arrays, layout);
  const ArraysByName by_name = arrays_by_name(arrays);
  struct Value {
    ConstView view;
    AlignedBytes copy;  // null: it is read where it lies
  };
  const auto value_of = [&](const ParameterInfo& info) -> Value {
    const std::vector<PartRows> parts = plain_parts(arrays, by_name, layout, info);
    if (parts.size() == 1 && is_whole(parts.front(), info)) {
      const StoredArray& array = *parts.front().array;
      return {ConstView(array.data, array.dtype, array.shape), nullptr};
    }
    const DType dtype = parts.empty() ? DType::kF32 : parts.front().array->dtype;
    AlignedBytes copy = allocate_aligned(dtype_bytes(dtype, info.shape.elements()));
    const View out(copy.get(), dtype, info.shape);
    if (parts.empty())
      weights.read(info, 0, info.shape[0], out.f32());
    else
      copy_rows(parts, out);
    return {out, std::move(copy)};
  };
  const std::vector<Parameters::Item>& items = parameters.items();
  std::vector<Value> values(items.size());
  executor.run(std::ssize(items), [&](int64_t i, int) {
    values[static_cast<size_t>(i)] = value_of(items[static_cast<size_t>(i)].info);
  });
  for (size_t i = 0; i < items.size(); ++i) {
    if (values[i].copy == nullptr)
      parameters.bind(items[i], values[i].view);
    else
      parameters.adopt(items[i], values[i].view, std::move(values[i].copy));
  }
}

LoadedModel load_model_as_stored(const Path& path, Executor& executor) {
  StoredModel stored = open_model(path);
  LoadedModel out = without_weights(stored, Parameters::Memory::kUnbound);
  out.files = stored.arrays.owners;
  bind_weights(stored.arrays, stored.layout, *out.parameters, executor);
  return out;
}

}  // namespace tril
