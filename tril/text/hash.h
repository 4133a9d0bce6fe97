// A 64-bit hash for tables and fingerprints (not against an attacker): the same on every little-endian
// machine.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace tril {

class Hash64 {
 public:
  void add(uint64_t word) {
    state_ ^= word;
    state_ *= 0x9E3779B97F4A7C15;
    state_ ^= state_ >> 32;
  }
  // The length counts too, so that "ab", "c" and "a", "bc" differ.
  void add(std::string_view bytes) {
    add(uint64_t{bytes.size()});
    size_t at = 0;
    for (; at + 8 <= bytes.size(); at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, 8);
      add(word);
    }
    uint64_t rest = 0;
    for (int shift = 0; at < bytes.size(); ++at, shift += 8) {
      rest |= uint64_t{static_cast<unsigned char>(bytes[at])} << shift;
    }
    add(rest);
  }
  void add(std::span<const int32_t> ids) {
    add(std::string_view(reinterpret_cast<const char*>(ids.data()), ids.size_bytes()));
  }

  uint64_t value() const {
    const uint64_t mixed = (state_ ^ (state_ >> 29)) * 0xBF58476D1CE4E5B9;
    return mixed ^ (mixed >> 32);
  }
  std::string hex() const { return fmt::format("{:016x}", value()); }

 private:
  uint64_t state_ = 0xCBF29CE484222325;
};

}  // namespace tril
