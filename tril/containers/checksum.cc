#include "tril/containers/checksum.h"

#include <zlib.h>

#include <algorithm>
#include <array>

namespace tril {
namespace {

// What the eight steps of the division make of a byte.
constexpr std::array<uint32_t, 256> crc32c_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t remainder = byte;
    for (int bit = 0; bit < 8; ++bit) remainder = remainder >> 1 ^ (remainder & 1 ? 0x82F63B78u : 0u);
    table[byte] = remainder;
  }
  return table;
}
constexpr std::array<uint32_t, 256> kCrc32c = crc32c_table();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t previous) {
  if (bytes.empty()) return previous;  // zlib restarts at 0 when given a null pointer
  return static_cast<uint32_t>(
      ::crc32_z(previous, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

uint32_t crc32_combined(uint32_t first, uint32_t second, int64_t second_bytes) {
  return static_cast<uint32_t>(::crc32_combine(first, second, second_bytes));
}

uint32_t crc32(const MappedFile& file) {
  constexpr size_t kPiece = size_t{1} << 20;
  const std::span<const std::byte> bytes = file.bytes();
  uint32_t crc = 0;
  for (size_t begin = 0; begin < bytes.size(); begin += kPiece) {
    crc = crc32(bytes.subspan(begin, std::min(kPiece, bytes.size() - begin)), crc);
    file.forget();
  }
  return crc;
}

uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous) {
  uint32_t remainder = ~previous;
  for (const std::byte byte : bytes)
    remainder = kCrc32c[(remainder ^ static_cast<uint32_t>(byte)) & 0xFF] ^ remainder >> 8;
  return ~remainder;
}

}  // namespace tril
