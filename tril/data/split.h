// Which side of a split a document is on, and hashes of documents that come in pieces.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>

#include "tril/text/hash.h"

namespace tril {

// A place in [0, 1) from the first 64 KiB of a document: below the validation fraction it is for validation.
// Documents of the same long begin are on the same side, and a large one need not be in memory to know.
inline double split_place(std::string_view text) {
  constexpr size_t kPrefix = size_t{1} << 16;
  Hash64 hash;
  hash.add(text.substr(0, std::min(text.size(), kPrefix)));
  return static_cast<double>(hash.value() >> 11) * 0x1p-53;
}

// 128 bits over all bytes of a document, however it is cut into pieces (two multiplicative hashes; not
// against an attacker, who could make two texts of the same hash).
class DocumentHash {
 public:
  using Value = std::array<uint64_t, 2>;
  void add(std::string_view bytes) {
    size_ += bytes.size();
    while (filled_ > 0 && !bytes.empty()) {
      take(static_cast<unsigned char>(bytes.front()));
      bytes.remove_prefix(1);
    }
    for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data(), 8);
      mix(word);
    }
    for (const char c : bytes) take(static_cast<unsigned char>(c));
  }
  Value value() const {
    DocumentHash end = *this;
    if (end.filled_ > 0) end.mix(end.word_);
    end.mix(size_);
    return {end.a_ ^ end.a_ >> 29, end.b_ ^ end.b_ >> 31};
  }
  // To go on after a kill.
  std::array<uint64_t, 5> state() const { return {a_, b_, word_, filled_, size_}; }
  void restore(const std::array<uint64_t, 5>& s) {
    a_ = s[0], b_ = s[1], word_ = s[2], filled_ = s[3] % 8, size_ = s[4];
  }

 private:
  void mix(uint64_t word) {
    a_ = (a_ ^ word) * 0x9E3779B97F4A7C15;
    a_ ^= a_ >> 32;
    b_ = (b_ ^ (word << 31 | word >> 33)) * 0xD6E8FEB86659FD93;
    b_ ^= b_ >> 29;
  }
  void take(uint64_t byte) {
    word_ |= byte << 8 * filled_;
    if (++filled_ < 8) return;
    mix(word_);
    word_ = filled_ = 0;
  }
  uint64_t a_ = 0xCBF29CE484222325, b_ = 0x84222325CBF29CE4, word_ = 0, filled_ = 0, size_ = 0;
};

}  // namespace tril
