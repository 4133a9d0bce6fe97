#include "tril/interop/layout.h"

#include <algorithm>
#include <set>

#include "tril/base/printable.h"
#include "tril/tensor/quantized.h"

namespace tril {
namespace {

constexpr std::string_view kWrappers[] = {"transformer.", "model.", "module.", "_orig_mod."};
constexpr int64_t kPiece = 1 << 16;  // elements that are looked at at a time

int64_t columns_of(const ParameterInfo& info) { return info.shape.rank() == 2 ? info.shape[1] : 1; }

// Of an array that gives this part.
Shape array_shape(const ArrayPart& part, const ParameterInfo& info) {
  const int64_t rows = part.array_rows != 0 ? part.array_rows : part.rows;
  if (info.shape.rank() == 1) return {rows};
  return part.transposed ? Shape{info.shape[1], rows} : Shape{rows, info.shape[1]};
}

bool may_be_absent(const ArrayPart& part, const ParameterInfo& info) {
  const bool square = info.shape.rank() < 2 || info.shape[0] == info.shape[1];
  return part.absent == ArrayPart::Absent::kZeros || (part.absent == ArrayPart::Absent::kIdentity && square);
}

bool all_zero(const StoredArray& array) {
  std::vector<float> piece(kPiece);
  for (int64_t at = 0, all = array.shape.elements(); at < all; at += kPiece) {
    const int64_t count = std::min(kPiece, all - at);
    read_f32(array, at, count, piece.data());
    if (!std::all_of(piece.begin(), piece.begin() + count, [](float x) { return x == 0; })) return false;
  }
  return true;
}

bool same_values(const StoredArray& a, const StoredArray& b) {
  std::vector<float> x(kPiece), y(kPiece);
  for (int64_t at = 0, all = a.shape.elements(); at < all; at += kPiece) {
    const int64_t count = std::min(kPiece, all - at);
    read_f32(a, at, count, x.data());
    read_f32(b, at, count, y.data());
    if (!std::equal(x.begin(), x.begin() + count, y.begin())) return false;
  }
  return true;
}

// y (rows, columns) = rows [first, first + rows) of the transpose of the array (columns, its rows).
void read_transposed(const StoredArray& array, int64_t columns, int64_t first, int64_t rows, float* y) {
  constexpr int64_t kTile = 16;
  const int64_t stride = array.shape[1];
  std::vector<float> tile(static_cast<size_t>(kTile * rows));
  for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
    const int64_t width = std::min(kTile, columns - c0);
    for (int64_t c = 0; c < width; ++c)
      read_f32(array, (c0 + c) * stride + first, rows, tile.data() + c * rows);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < width; ++c) y[r * columns + c0 + c] = tile[static_cast<size_t>(c * rows + r)];
  }
}

}  // namespace

std::string_view without_wrappers(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!name.starts_with(wrapper)) continue;
      name.remove_prefix(wrapper.size());
      again = true;
    }
  }
  return name;
}

ArraysByName arrays_by_name(const StoredArrays& arrays) {
  ArraysByName out;
  for (const StoredArray& array : arrays.arrays) {
    const auto [at, is_new] = out.emplace(without_wrappers(array.name), &array);
    check_data(is_new, "{}: {} and {} are the same tensor by name; one must go", arrays.where,
               printable(at->second->name), printable(array.name));
  }
  return out;
}

const StoredArray& require_array(const StoredArrays& arrays, const ArraysByName& by_name,
                                 std::string_view name) {
  const auto at = by_name.find(name);
  check_data(at != by_name.end(), "{}: tensor {} is missing", arrays.where, printable(name));
  return *at->second;
}

TransformerConfig resolved_of_file(const TransformerConfig& config, std::string_view where) {
  try {
    return config.resolved();
  } catch (const Error& error) {
    fail(ErrorKind::kData, "{}: {}", where, error.what());
  }
}

void for_each_parameter(const TransformerConfig& config, FunctionRef<void(const ParameterInfo&)> body) {
  Transformer model(config);
  model.visit("", [&](const ParameterInfo& info, Weight&) { body(info); });
}

int64_t row_in_array(const ArrayPart& part, int64_t row) {
  if (part.order == HeadOrder::kSame) return row;
  const int64_t size = part.rows / part.heads, head = row / size * size, r = row % size;
  if (part.order == HeadOrder::kInterleavedThere)
    return head + (r < size / 2 ? 2 * r : 2 * (r - size / 2) + 1);
  return head + r / 2 + (r % 2) * (size / 2);
}

StoredWeights::StoredWeights(const StoredArrays& arrays, const Layout& layout)
    : arrays_(arrays), layout_(layout), by_name_(arrays_by_name(arrays)) {}

void StoredWeights::check_part(const ArrayPart& part, const ParameterInfo& info) const {
  const StoredArray& array = require_array(arrays_, by_name_, part.array);
  const Shape expected = array_shape(part, info);
  check_data(array.shape == expected, "{}: tensor {}: shape {} where {} is expected", arrays_.where,
             printable(array.name), array.shape, expected);
  const bool blocks = dtype_info(array.dtype).block_elements > 1;
  check_data(holds_floats(array.dtype) && (!blocks || (info.shape.rank() == 2 && !part.transposed)),
             "{}: tensor {} has the type {}, which such weights cannot have", arrays_.where,
             printable(array.name), dtype_info(array.dtype).name);
}

void StoredWeights::check(const TransformerConfig& config) const {
  std::set<std::string, std::less<>> parameters, known;
  for_each_parameter(config, [&](const ParameterInfo& info) {
    parameters.insert(info.name);
    for (const ArrayPart& part : layout_.parts(info)) {
      if (may_be_absent(part, info) && !by_name_.contains(part.array)) continue;
      check_part(part, info);
      known.insert(part.array);
    }
  });
  for_each_parameter(layout_.whole, [&](const ParameterInfo& info) {
    if (parameters.contains(info.name)) return;
    for (const ArrayPart& part : layout_.parts(info)) {
      if (!by_name_.contains(part.array)) continue;
      check_part(part, info);
      check_data(all_zero(*by_name_.find(part.array)->second),
                 "{}: tensor {} is not zero, but its configuration says the model has no such bias",
                 arrays_.where, part.array);
      known.insert(part.array);
    }
  });
  if (config.tied_head) {
    const ParameterInfo tokens{.name = "token_embedding.weight",
                               .shape = {config.vocabulary, config.channels}};
    const ParameterInfo head{.name = "lm_head.weight", .shape = tokens.shape};
    const ArrayPart table = layout_.parts(tokens).front(), copy = layout_.parts(head).front();
    if (by_name_.contains(copy.array)) {
      check_part(copy, head);
      check_data(
          same_values(*by_name_.find(copy.array)->second, *by_name_.find(table.array)->second),
          "{}: {} and {} differ, but its configuration says that they are tied; set \"tie_word_embeddings\": "
          "false",
          arrays_.where, copy.array, table.array);
      known.insert(copy.array);
    }
  }
  for (const auto& [name, array] : by_name_) {
    check_data(known.contains(name) || (layout_.ignores && layout_.ignores(name)),
               "{}: tensor {} has no place in the model that its configuration describes", arrays_.where,
               printable(array->name));
  }
}

void StoredWeights::read_part(const ArrayPart& part, int64_t columns, int64_t first, int64_t count,
                              float* out) const {
  const auto at = by_name_.find(part.array);
  if (at == by_name_.end()) {  // checked: it may be absent
    std::fill_n(out, count * columns, 0.0f);
    if (part.absent == ArrayPart::Absent::kIdentity && columns > 1)
      for (int64_t r = 0; r < count; ++r) out[r * columns + first + r] = 1;
    return;
  }
  const StoredArray& array = *at->second;
  if (part.transposed) {
    read_transposed(array, columns, part.first_row + first, count, out);
  } else if (part.order == HeadOrder::kSame) {
    read_f32(array, (part.first_row + first) * columns, count * columns, out);
  } else {
    for (int64_t r = 0; r < count; ++r)
      read_f32(array, (part.first_row + row_in_array(part, first + r)) * columns, columns, out + r * columns);
  }
}

void StoredWeights::read(const ParameterInfo& info, int64_t first, int64_t count, float* out) const {
  const int64_t columns = columns_of(info);
  int64_t begin = 0;  // of the part, among the parameter's rows
  for (const ArrayPart& part : layout_.parts(info)) {
    const int64_t from = std::max(first, begin), to = std::min(first + count, begin + part.rows);
    if (from < to) read_part(part, columns, from - begin, to - from, out + (from - first) * columns);
    begin += part.rows;
  }
}

void check_weights(const StoredArrays& arrays, const Layout& layout, const TransformerConfig& config) {
  StoredWeights(arrays, layout).check(config);
}

void read_weights(const StoredArrays& arrays, const Layout& layout, const Parameters& parameters) {
  const StoredWeights weights(arrays, layout);
  for (const Parameters::Item& item : parameters.items())
    weights.read(item.info, 0, item.info.shape[0], item.weight->value.f32());
}

}  // namespace tril
