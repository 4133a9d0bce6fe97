// Masks of a stretch of text, one bit a byte.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tril {

struct ByteMasks {
  static constexpr size_t kWords = 63;  // 4032 bytes: all masks together stay in the first cache
  using Mask = std::array<uint64_t, kWords + 1>;
  Mask letter, number, space, other;  // of white space, letters, numbers; other: valid, none of these
  Mask blank, quote, high;            // ' ', ''', bytes from 0x80
  Mask invalid, inside;               // no UTF-8; second and later bytes of a character
};

}  // namespace tril
