// Damages bytes, the same way for the same stream: one to four changes, a byte set, inserted, removed or
// doubled, a piece copied elsewhere, a bit turned.
#pragma once

#include <string>
#include <string_view>

#include "tril/base/random.h"

namespace tril::testing {

// `telling`: bytes that mean something in the format; three of four new bytes are of them.
inline std::string mutate(std::string text, const RandomStream& random, std::string_view telling) {
  uint64_t draw = 0;
  const auto below = [&](uint64_t n) { return random.below(draw++, n); };
  for (uint64_t changes = 1 + below(4); changes > 0; --changes) {
    const size_t at = below(text.size());
    const char c = below(4) == 0 ? static_cast<char>(below(256)) : telling[below(telling.size())];
    switch (below(6)) {
      case 0:
        text[at] = c;
        break;
      case 1:
        text.insert(at, 1 + below(3), c);
        break;
      case 2:
        text.erase(at, 1 + below(8));
        break;
      case 3:
        text.insert(below(text.size()), text.substr(at, below(60)));
        break;
      case 4:
        text.resize(at);
        break;
      default:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
    }
    if (text.empty()) text = telling.substr(0, 1);
  }
  return text;
}

// A number of a binary format becomes another: small, huge, negative, or one off.
inline std::string mutate_number(std::string bytes, size_t at, size_t size, const RandomStream& random) {
  static constexpr uint64_t kNumbers[] = {
      0,          1,          2,          255,   65536,      0x7FFFFFFF,       0x80000000,
      0xFFFFFFFF, 1ull << 30, 1ull << 40, ~0ull, 1ull << 63, (1ull << 63) - 1, 1ull << 61};
  uint64_t value = kNumbers[random.below(0, std::size(kNumbers))];
  if (random.below(1, 4) == 0) value = static_cast<unsigned char>(bytes[at]) + random.below(2, 3) - 1;
  for (size_t i = 0; i < size && at + i < bytes.size(); ++i)
    bytes[at + i] = static_cast<char>(value >> (8 * i));
  return bytes;
}

}  // namespace tril::testing
