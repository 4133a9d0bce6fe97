#include "tril/containers/gguf.h"

namespace tril {
namespace {

template <class T>
void append(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_text(std::string& out, std::string_view text) {
  append(out, uint64_t{text.size()});
  out += text;
}

}  // namespace

void GgufHeader::start(std::string_view key, GgufType type) {
  ++fields_;
  append_text(bytes_, key);
  append(bytes_, static_cast<uint32_t>(type));
}

void GgufHeader::start_array(std::string_view key, GgufType element, uint64_t count) {
  start(key, GgufType::kArray);
  append(bytes_, static_cast<uint32_t>(element));
  append(bytes_, count);
}

void GgufHeader::add(std::string_view key, std::string_view text) {
  start(key, GgufType::kString);
  append_text(bytes_, text);
}

void GgufHeader::add(std::string_view key, uint32_t value) {
  start(key, GgufType::kU32);
  append(bytes_, value);
}

void GgufHeader::add(std::string_view key, float value) {
  start(key, GgufType::kF32);
  append(bytes_, value);
}

void GgufHeader::add_flag(std::string_view key, bool value) {
  start(key, GgufType::kBool);
  append(bytes_, static_cast<uint8_t>(value));
}

void GgufHeader::add(std::string_view key, std::span<const std::string> texts) {
  start_array(key, GgufType::kString, texts.size());
  for (const std::string& text : texts) append_text(bytes_, text);
}

void GgufHeader::add(std::string_view key, std::span<const int32_t> values) {
  start_array(key, GgufType::kI32, values.size());
  for (const int32_t value : values) append(bytes_, value);
}

void GgufHeader::add(std::string_view key, std::span<const float> values) {
  start_array(key, GgufType::kF32, values.size());
  for (const float value : values) append(bytes_, value);
}

std::string GgufHeader::without_tensors() const {
  std::string out = "GGUF";
  append(out, uint32_t{3});
  append(out, uint64_t{0});
  append(out, fields_);
  out += bytes_;
  out.resize((out.size() + 31) / 32 * 32);
  return out;
}

}  // namespace tril
