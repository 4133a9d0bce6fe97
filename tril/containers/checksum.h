// CRC-32 as zlib computes it, to notice damaged files (not to resist an attacker).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tril {

uint32_t crc32(std::span<const std::byte> bytes, uint32_t previous = 0);

}  // namespace tril
