// The JSON header of a safetensors file, parsed without trusting it. Used by safetensors*.cc only.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tril/base/files.h"
#include "tril/tensor/dtype.h"

namespace tril {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::array<int64_t, 2> offsets{};  // [begin, end) in the data
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in header order; names are unique
  std::map<std::string, std::string> metadata;
};

// Throws kData naming `path` and the tensor. Memory is in proportion to the header; nesting costs none.
SafetensorsHeader parse_safetensors_header(const Path& path, std::string_view json);

// Bits of an element of this dtype name; 0 if the name is unknown.
int64_t safetensors_dtype_bits(std::string_view dtype);
std::string safetensors_dtype_name(DType dtype);  // "BF16"

}  // namespace tril
