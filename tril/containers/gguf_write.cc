#include "tril/base/bytes.h"
#include "tril/containers/gguf.h"

namespace tril {
namespace {

constexpr size_t kLongestTensorName = 63;  // ggml's

void append_text(std::string& out, std::string_view text) {
  append_number(out, uint64_t{text.size()});
  out += text;
}

}  // namespace

void GgufHeader::start(std::string_view key, GgufType type) {
  ++fields_;
  append_text(bytes_, key);
  append_number(bytes_, static_cast<uint32_t>(type));
}

void GgufHeader::start_array(std::string_view key, GgufType element, uint64_t count) {
  start(key, GgufType::kArray);
  append_number(bytes_, static_cast<uint32_t>(element));
  append_number(bytes_, count);
}

void GgufHeader::add(std::string_view key, std::string_view text) {
  start(key, GgufType::kString);
  append_text(bytes_, text);
}

void GgufHeader::add(std::string_view key, uint32_t value) {
  start(key, GgufType::kU32);
  append_number(bytes_, value);
}

void GgufHeader::add(std::string_view key, float value) {
  start(key, GgufType::kF32);
  append_number(bytes_, value);
}

void GgufHeader::add_flag(std::string_view key, bool value) {
  start(key, GgufType::kBool);
  append_number(bytes_, static_cast<uint8_t>(value));
}

void GgufHeader::add(std::string_view key, std::span<const std::string> texts) {
  start_array(key, GgufType::kString, texts.size());
  for (const std::string& text : texts) append_text(bytes_, text);
}

void GgufHeader::add(std::string_view key, std::span<const int32_t> values) {
  start_array(key, GgufType::kI32, values.size());
  for (const int32_t value : values) append_number(bytes_, value);
}

void GgufHeader::add(std::string_view key, std::span<const float> values) {
  start_array(key, GgufType::kF32, values.size());
  for (const float value : values) append_number(bytes_, value);
}

std::string GgufHeader::with_tensors(std::span<const StreamedArray> tensors) const {
  std::string out = "GGUF";
  append_number(out, uint32_t{3});
  append_number(out, uint64_t{tensors.size()});
  append_number(out, fields_);
  out += bytes_;
  int64_t offset = 0;
  for (const StreamedArray& tensor : tensors) {
    const auto type = ggml_type(tensor.dtype);
    check_use(
        type.has_value() && tensor.name.size() <= kLongestTensorName,
        "GGUF: tensor {} of type {}: names have at most {} bytes, types are f32, f16, bf16, q8_0, q4_0, q4_1",
        tensor.name, dtype_info(tensor.dtype).name, kLongestTensorName);
    append_text(out, tensor.name);
    append_number(out, static_cast<uint32_t>(tensor.shape.rank()));
    for (int i = tensor.shape.rank(); i-- > 0;) append_number(out, static_cast<uint64_t>(tensor.shape[i]));
    append_number(out, static_cast<uint32_t>(*type));
    append_number(out, static_cast<uint64_t>(offset));
    offset =
        checked_add(offset, round_up(dtype_bytes(tensor.dtype, tensor.shape.elements()), kGgufAlignment));
  }
  out.resize(static_cast<size_t>(round_up(std::ssize(out), kGgufAlignment)));
  return out;
}

std::optional<GgmlType> ggml_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return GgmlType::kF32;
    case DType::kF16:
      return GgmlType::kF16;
    case DType::kBF16:
      return GgmlType::kBF16;
    case DType::kQ8_0:
      return GgmlType::kQ8_0;
    case DType::kQ4_0:
      return GgmlType::kQ4_0;
    case DType::kQ4_1:
      return GgmlType::kQ4_1;
    default:
      return std::nullopt;
  }
}

void write_gguf(const Path& path, const GgufHeader& header, std::span<const StreamedArray> tensors) {
  AtomicFile file(path);
  file.write(header.with_tensors(tensors));
  const std::string padding(kGgufAlignment, '\0');
  for (const StreamedArray& tensor : tensors) {
    for_each_piece(tensor, [&](std::span<const std::byte> bytes) { file.write(bytes); });
    const int64_t size = dtype_bytes(tensor.dtype, tensor.shape.elements());
    file.write(
        std::string_view(padding).substr(0, static_cast<size_t>(round_up(size, kGgufAlignment) - size)));
  }
  file.commit();
}

}  // namespace tril
