// Damaged files for the tests of readers: the same ones in every run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>

#include "tril/base/error.h"
#include "tril/base/random.h"

namespace tril::testing {

// How many damaged files to read: TRIL_FUZZ_ROUNDS where it is set.
inline uint64_t fuzz_rounds(uint64_t usual) {
  const char* const rounds = std::getenv("TRIL_FUZZ_ROUNDS");
  return rounds != nullptr ? std::strtoull(rounds, nullptr, 10) : usual;
}

// What numbers of a binary format are made into.
inline constexpr std::array<uint64_t, 14> kExtremeNumbers = {
    0,          1,          2,          255,   65536,      0x7FFFFFFF,       0x80000000,
    0xFFFFFFFF, 1ull << 30, 1ull << 40, ~0ull, 1ull << 63, (1ull << 63) - 1, 1ull << 61};

// One to four changes: a byte set, inserted, removed, a bit turned, a piece copied elsewhere, a number made
// extreme, or the end cut off. `telling`: bytes that mean something in the format; three of four new bytes
// are of them.
inline std::string mutate(std::string bytes, const RandomStream& random, std::string_view telling = {}) {
  uint64_t draw = 0;
  const auto below = [&](uint64_t n) { return random.below(draw++, n); };
  for (uint64_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = below(bytes.size());
    const char c =
        telling.empty() || below(4) == 0 ? static_cast<char>(below(256)) : telling[below(telling.size())];
    switch (below(7)) {
      case 0:
        bytes[at] = c;
        break;
      case 1:
        bytes.insert(at, 1 + below(3), c);
        break;
      case 2:
        bytes.erase(at, 1 + below(8));
        break;
      case 3:
        bytes.insert(below(bytes.size()), bytes.substr(at, below(60)));
        break;
      case 4: {
        const uint64_t value = kExtremeNumbers[below(kExtremeNumbers.size())];
        const size_t size = std::min<size_t>(size_t{1} << below(4), bytes.size() - at);
        std::copy_n(reinterpret_cast<const char*>(&value), size,
                    bytes.begin() + static_cast<std::ptrdiff_t>(at));
        break;
      }
      case 5:
        if (below(4) == 0) bytes.resize(at);
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
    }
  }
  return bytes;
}

// The number of `size` bytes at this place becomes another: extreme, or one off.
inline std::string mutate_number(std::string bytes, size_t at, size_t size, const RandomStream& random) {
  uint64_t value = kExtremeNumbers[random.below(0, kExtremeNumbers.size())];
  if (random.below(1, 4) == 0) value = static_cast<unsigned char>(bytes[at]) + random.below(2, 3) - 1;
  for (size_t i = 0; i < size && at + i < bytes.size(); ++i)
    bytes[at + i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

// Whether the body ends without an Error; one must be of kData, on one line.
inline bool ends_well(const std::function<void()>& body) {
  try {
    body();
    return true;
  } catch (const Error& error) {
    const std::string_view message = error.what();
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(ErrorKind::kData)) << message;
    EXPECT_EQ(message.find_first_of("\n\r\x1b"), message.npos) << message;
    return false;
  }  // anything else fails the test
}

}  // namespace tril::testing
