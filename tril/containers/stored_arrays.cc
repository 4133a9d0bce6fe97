#include "tril/containers/stored_arrays.h"

#include <algorithm>
#include <map>
#include <set>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/gguf.h"
#include "tril/containers/json.h"
#include "tril/containers/safetensors.h"
#include "tril/tensor/quantized.h"

namespace tril {
namespace {

constexpr std::pair<std::string_view, DType> kSafetensorsTypes[] = {
    {"F32", DType::kF32}, {"F64", DType::kF64}, {"F16", DType::kF16}, {"BF16", DType::kBF16},
    {"I8", DType::kI8},   {"U8", DType::kU8},   {"BOOL", DType::kU8}, {"I16", DType::kI16},
    {"U16", DType::kU16}, {"I32", DType::kI32}, {"I64", DType::kI64}};

constexpr DType kGgmlTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16,
                                DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};

// ggml's other names, for messages.
constexpr std::pair<uint32_t, std::string_view> kUnreadTypes[] = {
    {6, "q5_0"},  {7, "q5_1"}, {10, "q2_K"}, {11, "q3_K"}, {12, "q4_K"}, {13, "q5_K"}, {14, "q6_K"},
    {15, "q8_K"}, {24, "i8"},  {25, "i16"},  {26, "i32"},  {27, "i64"},  {28, "f64"}};

Shape to_shape(const std::vector<int64_t>& sizes, const std::string& where, const std::string& name) {
  check_data(sizes.size() <= Shape::kMaxRank,
             "{}: tensor \"{}\" has {} dimensions; no model tril reads has more than {}", where,
             printable(name), sizes.size(), Shape::kMaxRank);
  return Shape(std::span(sizes));
}

// The element that is number `index` in row-major order of the shape.
int64_t place_of(const StoredArray& array, int64_t index) {
  int64_t place = 0;
  for (int i = array.shape.rank(); i-- > 0;) {
    place += index % array.shape[i] * array.strides[static_cast<size_t>(i)];
    index /= array.shape[i];
  }
  return place;
}

// A file of the index beside it: a plain name, which leads nowhere else.
Path shard_path(const Path& index, const std::string& where, const std::string& name) {
  const bool plain = !name.empty() && name != "." && name != ".." &&
                     name.find_first_of(std::string("/\\:\0", 4)) == std::string::npos;
  check_data(plain, "{}: \"weight_map\" names the file \"{}\"; a file of this folder is expected", where,
             printable(name));
  return index.parent_path() / name;
}

}  // namespace

void read_f32(const StoredArray& array, int64_t first, int64_t count, float* out) {
  const int64_t elements = array.shape.elements();
  check_use(first >= 0 && count >= 0 && first <= elements && count <= elements - first,
            "array {}: elements {} to {} of {} are asked for", printable(array.name), first, first + count,
            elements);
  check_data(holds_floats(array.dtype), "tensor \"{}\" has the type {}; the weights of a model are floats",
             printable(array.name), dtype_info(array.dtype).name);
  if (array.strides.empty()) {
    dequantize_row(array.dtype, count, array.data + dtype_bytes(array.dtype, first), out);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    dequantize_row(array.dtype, 1, array.data + dtype_bytes(array.dtype, place_of(array, first + i)),
                   out + i);
}

StoredArrays stored_arrays(std::shared_ptr<const SafetensorsFile> file) {
  StoredArrays out{.where = printable(file->path().native(), 4096)};
  for (const NamedArray& array : file->arrays()) {
    const auto* type = std::find_if(std::begin(kSafetensorsTypes), std::end(kSafetensorsTypes),
                                    [&](const auto& known) { return known.first == array.dtype; });
    check_data(type != std::end(kSafetensorsTypes),
               "{}: tensor \"{}\" has the dtype {}, which tril does not read; save the model as F32 or BF16",
               out.where, printable(array.name), printable(array.dtype, 40));
    out.arrays.push_back({.name = array.name,
                          .shape = to_shape(array.shape, out.where, array.name),
                          .dtype = type->second,
                          .data = array.bytes.data()});
  }
  out.owners.push_back(std::move(file));
  return out;
}

StoredArrays stored_arrays(std::shared_ptr<const GgufFile> file) {
  StoredArrays out{.where = file->where()};
  for (const GgufTensor& tensor : file->tensors()) {
    const auto* type = std::find_if(std::begin(kGgmlTypes), std::end(kGgmlTypes), [&](DType known) {
      return static_cast<uint32_t>(*ggml_type(known)) == tensor.type;
    });
    const auto* other = std::find_if(std::begin(kUnreadTypes), std::end(kUnreadTypes),
                                     [&](const auto& known) { return known.first == tensor.type; });
    check_data(type != std::end(kGgmlTypes),
               "{}: tensor \"{}\" is {}; tril reads f32, f16, bf16, q8_0, q4_0 and q4_1: get one of those",
               out.where, printable(tensor.name),
               other != std::end(kUnreadTypes) ? std::string(other->second)
                                               : fmt::format("of ggml's type {}", tensor.type));
    out.arrays.push_back({.name = tensor.name,
                          .shape = to_shape(tensor.shape, out.where, tensor.name),
                          .dtype = *type,
                          .data = file->data(tensor)});
  }
  out.owners.push_back(std::move(file));
  return out;
}

StoredArrays stored_arrays_of_index(const Path& index) {
  StoredArrays out{.where = printable(index.native(), 4096)};
  const Json json = parse_json(read_text_file(index));
  check_data(json.is_object() && json.contains("weight_map") && json["weight_map"].is_object(),
             "{}: no JSON object with a \"weight_map\" from tensors to files; get the file again", out.where);
  std::map<std::string, std::set<std::string>> wanted;  // arrays by file
  for (const auto& [array, file] : json["weight_map"].items()) {
    check_data(file.is_string(), "{}: \"weight_map\" gives {} for \"{}\"; a file name is expected", out.where,
               printable(to_text(file)), printable(array));
    wanted[file.get<std::string>()].insert(array);
  }
  for (const auto& [name, arrays] : wanted) {
    auto file = std::make_shared<const SafetensorsFile>(shard_path(index, out.where, name));
    file->check_checksum();
    for (const std::string& array : arrays)
      check_data(file->find(array) != nullptr, "{}: tensor \"{}\" is missing, which {} has in it",
                 printable(file->path().native(), 4096), printable(array), index.filename().string());
    StoredArrays shard = stored_arrays(file);
    for (StoredArray& array : shard.arrays)
      if (arrays.contains(array.name)) out.arrays.push_back(std::move(array));
    out.owners.insert(out.owners.end(), shard.owners.begin(), shard.owners.end());
  }
  return out;
}

}  // namespace tril
