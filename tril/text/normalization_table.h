// Unicode 14.0: what normalization needs to know of characters. Later versions only add characters.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tril {

struct Decomposition {
  char32_t character, first, second;  // second 0: one character alone
  bool stays;                         // the character itself is in form C, and is composed again
};
inline constexpr size_t kDecompositions = 2061;
extern const std::array<Decomposition, kDecompositions> decompositions;  // by character; without Hangul

struct CombiningRange {
  char32_t first, last;
  uint8_t combining_class;  // not 0
};
inline constexpr size_t kCombiningRanges = 382;
extern const std::array<CombiningRange, kCombiningRanges> combining_ranges;

}  // namespace tril
