#include "tril/containers/checksum.h"

#include <zlib.h>

namespace tril {

uint32_t crc32(std::span<const std::byte> bytes, uint32_t previous) {
  if (bytes.empty()) return previous;  // zlib restarts at 0 when given a null pointer
  return static_cast<uint32_t>(
      ::crc32_z(previous, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()));
}

}  // namespace tril
