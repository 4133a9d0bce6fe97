// Which class each code point has in Unicode 16.0, the version of today's tokenizers (a character that is
// newer to one of them is no letter there, and the text around it is split otherwise).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tril {

inline constexpr const char* kUnicodeVersion = "16.0.0";

enum class CharClass : uint8_t {
  kOther,   // punctuation, symbols, controls, code points without a character
  kSpace,   // White_Space: what \s is in the patterns of tokenizers
  kNumber,  // N
  kMark,    // M
  kUpper,   // Lu, Lt
  kLower,   // Ll
  kLetter,  // Lm, Lo
  kInvalid  // bytes that are no UTF-8
};

inline constexpr size_t kUnicodeRanges = 3191;
extern const std::array<uint32_t, kUnicodeRanges> unicode_ranges;  // made by scripts/unicode-classes

// Two stages: blocks of 128 code points, equal ones stored once.
class UnicodeTable {
 public:
  static const UnicodeTable& get();
  CharClass of(char32_t code_point) const {  // below 0x110000
    return blocks_[size_t{block_of_[code_point >> 7]} << 7 | (code_point & 127)];
  }

 private:
  UnicodeTable();
  std::array<uint8_t, 0x110000 / 128> block_of_{};
  std::vector<CharClass> blocks_;
};

struct Character {
  CharClass kind = CharClass::kInvalid;
  uint8_t length = 1;  // bytes; of invalid UTF-8 one at a time
};

// The character that starts at `at`, which is before `end`: the well-formed byte sequences of the Unicode
// Standard, table 3-7.
[[gnu::always_inline]] inline Character character_at(const UnicodeTable& table, const char* at,
                                                     const char* end) {
  const auto byte = [&](int i) { return static_cast<uint32_t>(static_cast<unsigned char>(at[i])); };
  const auto follows = [&](int i) { return (byte(i) & 0xC0) == 0x80; };
  const uint32_t lead = byte(0);
  const std::ptrdiff_t room = end - at;
  if (lead < 0x80) return {table.of(lead), 1};
  if (lead < 0xC2) return {};
  if (lead < 0xE0) {
    if (room < 2 || !follows(1)) return {};
    return {table.of((lead & 0x1F) << 6 | (byte(1) & 0x3F)), 2};
  }
  if (lead < 0xF0) {
    if (room < 3 || !follows(1) || !follows(2)) return {};
    const uint32_t code_point = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (code_point < 0x800 || (code_point >= 0xD800 && code_point < 0xE000)) return {};
    return {table.of(code_point), 3};
  }
  if (lead > 0xF4 || room < 4 || !follows(1) || !follows(2) || !follows(3)) return {};
  const uint32_t code_point =
      (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  if (code_point < 0x10000 || code_point >= 0x110000) return {};
  return {table.of(code_point), 4};
}

}  // namespace tril
