// Checksums to notice damaged files (not to resist an attacker). Both go on from `previous`, the checksum of
// what came before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tril/base/files.h"

namespace tril {

// CRC-32 as zlib computes it: the reflected polynomial 0xEDB88320.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t previous = 0);
// Of two runs of bytes one after the other, from the checksum of each and the length of the second.
uint32_t crc32_combined(uint32_t first, uint32_t second, int64_t second_bytes);
// Of a whole file, of which no more than a piece is in memory at one time.
uint32_t crc32(const MappedFile& file);

// CRC-32C (Castagnoli; RFC 3720, appendix B.4): the reflected polynomial 0x82F63B78.
uint32_t crc32c(std::span<const std::byte> bytes, uint32_t previous = 0);

}  // namespace tril
