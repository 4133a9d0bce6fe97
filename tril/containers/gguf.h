// GGUF: the file of ggml and llama.cpp, version 3 (version 2 has the same layout).
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   "GGUF" | u32 version | u64 tensors | u64 fields | fields | tensor infos | padding | data
//
// The header is read and checked, the data is not touched: lengths and counts fit the file, names are unique,
// tensors lie within the data, aligned. Nothing is allocated by what the file claims, only by what it holds;
// values stay views of the file. Errors are kData and name the file and the field or tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/files.h"
#include "tril/containers/streamed_array.h"

namespace tril {

enum class GgufType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64
};

struct GgufField {
  std::string key;
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;  // of an array; else `type`
  uint64_t count = 1;                // of an array's elements
  std::string_view bytes;            // the elements as in the file, each checked to lie within it
};

// Of a tensor; the numbers are ggml's. Those that tril has.
enum class GgmlType : uint32_t { kF32 = 0, kF16 = 1, kQ4_0 = 2, kQ4_1 = 3, kQ8_0 = 8, kBF16 = 30 };
std::optional<GgmlType> ggml_type(DType dtype);

struct GgufTensor {
  std::string name;
  std::vector<int64_t> shape;   // row-major, as tril's shapes: the file has the fastest dimension first
  uint32_t type = 0;            // ggml's number: 0 F32, 1 F16, 2 Q4_0, 8 Q8_0, 30 BF16, ...
  uint64_t offset = 0;          // of the first byte, from the start of the file
  std::optional<int64_t> size;  // bytes, checked to lie within the file; nothing for a type unknown here
};

class GgufFile {
 public:
  explicit GgufFile(const Path& path);
  // The same of bytes that outlive this object; `where` names them in messages.
  GgufFile(std::string_view bytes, std::string where);

  const std::vector<GgufField>& fields() const { return fields_; }
  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  // Where a tensor's first byte is, for as long as this object lives. Not aligned to its type by itself.
  const std::byte* data(const GgufTensor& tensor) const;
  const std::string& where() const { return where_; }

  const GgufField* find(std::string_view key) const;  // null if absent
  // Nothing if the key is absent; kData naming key and type if the value is something else.
  std::optional<std::string> text(std::string_view key) const;
  std::optional<int64_t> integer(std::string_view key) const;  // of any integer type
  std::optional<float> number(std::string_view key) const;     // F32 or F64
  std::optional<bool> boolean(std::string_view key) const;
  std::vector<std::string_view> texts(std::string_view key) const;  // empty if absent, as the next two
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<float> numbers(std::string_view key) const;  // of F32

 private:
  void read(std::string_view bytes);

  std::string where_;
  std::optional<MappedFile> file_;
  std::string_view bytes_;
  std::vector<GgufField> fields_;
  std::vector<GgufTensor> tensors_;
};

inline constexpr int64_t kGgufAlignment = 32;  // where a file does not say another

class GgufHeader;

// Writes atomically. The tensors are made as they are written, in pieces.
void write_gguf(const Path& path, const GgufHeader& header, std::span<const StreamedArray> tensors);

// The header of a file: fields in the order of the calls. Keys must be unique and at most 65,535 bytes.
class GgufHeader {
 public:
  void add(std::string_view key, std::string_view text);
  void add(std::string_view key, uint32_t value);
  void add(std::string_view key, float value);
  void add_flag(std::string_view key, bool value);
  void add(std::string_view key, std::span<const std::string> texts);
  void add(std::string_view key, std::span<const int32_t> values);
  void add(std::string_view key, std::span<const float> values);
  // A whole file without tensors, as a file of a vocabulary is.
  std::string without_tensors() const { return with_tensors({}); }
  // What stands before the data of these tensors, which follow each other, each padded to kGgufAlignment.
  // Throws kUse for names above 63 bytes and types that the format has not.
  std::string with_tensors(std::span<const StreamedArray> tensors) const;

 private:
  void start(std::string_view key, GgufType type);
  void start_array(std::string_view key, GgufType element, uint64_t count);

  std::string bytes_;
  uint64_t fields_ = 0;
};

}  // namespace tril
