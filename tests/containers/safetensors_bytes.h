// safetensors files made by hand, so that they can be wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "tril/base/files.h"

namespace tril::testing {

// u64 size | header | data, as it stands on the disk.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
  const uint64_t size = header.size();
  std::string out(sizeof(size), '\0');
  std::memcpy(out.data(), &size, sizeof(size));
  return out.append(header).append(data);
}

// Not atomic and not durable, so fast.
inline void write_bytes(const Path& path, std::string_view content) {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  append_to_file(path, content);
}

}  // namespace tril::testing
