// Pieces of up to 15 bytes as two words with the length in the last byte, and hashes of pieces: what tables
// of pieces are made of. Little-endian.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace tril {

inline uint64_t load64(const char* at) {
  uint64_t word = 0;
  std::memcpy(&word, at, 8);
  return word;
}

// Both halves of a 128-bit product folded: two words into one that depends on all bits of both.
inline uint64_t fold(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a ^ 0x9E3779B97F4A7C15) * (b ^ 0xBF58476D1CE4E5B9);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// {0, 0} is the key of no piece: none is empty.
struct PieceKey {
  static constexpr size_t kLongest = 15;
  uint64_t low = 0, high = 0;
  bool operator==(const PieceKey&) const = default;
  size_t size() const { return high >> 56; }
  static constexpr uint64_t kFirstFactor = 0x9E3779B97F4A7C15, kSecondFactor = 0xBF58476D1CE4E5B9;
  // Two products of 64 bits, which vector units have.
  uint64_t hash() const {
    uint64_t hash = low * kFirstFactor;
    hash = (hash ^ hash >> 32 ^ high) * kSecondFactor;
    return hash ^ hash >> 32;
  }
  // The bytes, which live in the key.
  std::string_view bytes() const { return {reinterpret_cast<const char*>(this), size()}; }
};

// Reads 16 bytes at `at`, of which the first `size`, 1 to 15, are the piece.
inline PieceKey piece_key(const char* at, size_t size) {
  struct Masks {
    uint64_t low, high;
  };
  static constexpr auto kMasks = [] {
    std::array<Masks, 16> masks{};
    for (size_t n = 0; n < 16; ++n) {
      masks[n].low = n >= 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * n) - 1;
      masks[n].high = n <= 8 ? 0 : (uint64_t{1} << 8 * (n - 8)) - 1;
    }
    return masks;
  }();
  return {load64(at) & kMasks[size].low, (load64(at + 8) & kMasks[size].high) | uint64_t{size} << 56};
}

// The same where fewer than 16 bytes may be read.
inline PieceKey piece_key_at_end(const char* at, size_t size) {
  std::array<char, 16> copy{};
  std::memcpy(copy.data(), at, size);
  return piece_key(copy.data(), size);
}
inline PieceKey piece_key(std::string_view piece) { return piece_key_at_end(piece.data(), piece.size()); }

inline uint64_t piece_hash(std::string_view piece) {
  uint64_t hash = piece.size();
  size_t at = 0;
  for (; at + 8 <= piece.size(); at += 8) hash = fold(hash, load64(piece.data() + at));
  uint64_t rest = 0;
  std::memcpy(&rest, piece.data() + at, piece.size() - at);
  return fold(hash, rest);
}

}  // namespace tril
