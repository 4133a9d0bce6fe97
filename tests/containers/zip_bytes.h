// Zip archives of stored entries, made by hand in memory: without checksums, nothing aligned.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tril::testing {

inline std::string zip_bytes(const std::vector<std::pair<std::string, std::string>>& entries) {
  const auto number = [](std::string& out, uint64_t value, int size) {
    for (int i = 0; i < size; ++i) out += static_cast<char>(value >> 8 * i);
  };
  std::string out, directory;
  for (const auto& [name, bytes] : entries) {
    std::string fields(10, '\0');  // flags, method, time, date, and what follows to the sizes
    number(fields, 0, 4);          // checksum
    number(fields, bytes.size(), 4);
    number(fields, bytes.size(), 4);
    number(fields, name.size(), 2);
    number(fields, 0, 2);
    directory += std::string("PK\x01\x02\x14\x00", 6) + fields + std::string(10, '\0');
    number(directory, out.size(), 4);
    directory += name;
    out += "PK\x03\x04" + fields + name + bytes;
  }
  const size_t begin = out.size();
  out += directory + "PK\x05\x06" + std::string(4, '\0');
  for (int i = 0; i < 2; ++i) number(out, entries.size(), 2);
  number(out, directory.size(), 4);
  number(out, begin, 4);
  number(out, 0, 2);
  return out;
}

}  // namespace tril::testing
