// bfloat16: the upper half of a float, 8 bits of precision; storage only.
#pragma once

#include <bit>
#include <cstdint>

namespace tril {

struct Bfloat16 {
  uint16_t bits = 0;
};

inline float to_float(Bfloat16 x) { return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16); }

// The nearest bfloat16, of two equally near ones the one whose last bit is 0. What is larger than all of them
// becomes infinity; a NaN stays one, made quiet.
inline Bfloat16 to_bfloat16(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
  const uint32_t rounded = bits + 0x7FFFu + (bits >> 16 & 1);
  return {static_cast<uint16_t>((nan ? bits | 0x400000u : rounded) >> 16)};
}

// y (count) = x (count), rounded.
inline void to_bfloat16(int64_t count, const float* x, Bfloat16* y) {
  for (int64_t i = 0; i < count; ++i) y[i] = to_bfloat16(x[i]);
}

}  // namespace tril
