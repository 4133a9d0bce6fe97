// Keys of many pieces at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tril/text/piece_key.h"

namespace tril {

struct PieceKeys {
  static constexpr size_t kMost = 128;
  std::array<uint64_t, kMost> low, high, hash;  // of pieces of up to 15 bytes, as in PieceKey
  bool any_long = false;                        // there are longer ones; what stands for them means nothing
  PieceKey key(size_t i) const { return {low[i], high[i]}; }
};

// Piece i of `count` is [bounds[i], bounds[i + 1]) of the text at `text`. Reads 16 bytes from the begin of
// each piece, which `end`, the end of all that may be read, can forbid: then it is done one by one.
void make_piece_keys(const char* text, const char* end, const uint32_t* bounds, size_t count, PieceKeys& to);

}  // namespace tril
