// Damaged files for the tests of readers: the same ones in every run.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>

#include "tril/base/error.h"
#include "tril/base/random.h"

namespace tril::testing {

// One to four changes: a byte set, inserted, removed, a bit turned, a piece copied elsewhere, a number made
// extreme, or the end cut off.
inline std::string mutate(std::string bytes, const RandomStream& random) {
  static constexpr std::array<uint64_t, 6> kExtreme = {0,          UINT64_MAX, uint64_t{1} << 62,
                                                       0x7FFFFFFF, 0xFFFFFFFF, uint64_t{1} << 40};
  uint64_t draw = 0;
  const auto below = [&](uint64_t n) { return random.below(draw++, n); };
  for (uint64_t changes = 1 + below(4); changes > 0 && !bytes.empty(); --changes) {
    const size_t at = below(bytes.size());
    switch (below(7)) {
      case 0:
        bytes[at] = static_cast<char>(below(256));
        break;
      case 1:
        bytes.insert(at, 1 + below(3), static_cast<char>(below(256)));
        break;
      case 2:
        bytes.erase(at, 1 + below(8));
        break;
      case 3:
        bytes.insert(below(bytes.size()), bytes.substr(at, below(60)));
        break;
      case 4: {
        const uint64_t value = kExtreme[below(kExtreme.size())];
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
