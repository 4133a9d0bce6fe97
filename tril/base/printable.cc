#include "tril/base/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace tril {
namespace {

// The length of the well-formed UTF-8 sequence at the start of `text` and its code point; length 0 if there
// is none.
struct Decoded {
  size_t length;
  uint32_t code_point;
};

Decoded decode(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) return {1, first};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return {0, 0};
  uint32_t c = first & (0xFFu >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0, 0};
    c = c << 6 | (byte(i) & 0x3Fu);
  }
  const uint32_t lowest = length == 4 ? 0x10000 : length == 3 ? 0x800 : 0x80;
  if (c < lowest || c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF)) return {0, 0};
  return {length, c};
}

bool is_safe(uint32_t c) {
  const bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  const bool breaks_or_reorders = (c >= 0x200E && c <= 0x200F) || (c >= 0x2028 && c <= 0x202E) ||
                                  (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
  return !control && !breaks_or_reorders;
}

}  // namespace

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  size_t i = 0;
  while (i < text.size()) {
    const Decoded d = decode(text.substr(i));
    const size_t length = d.length == 0 ? 1 : d.length;
    if (i + length > limit) return out + "...";
    if (d.length != 0 && is_safe(d.code_point)) {
      out += text.substr(i, length);
    } else {
      for (size_t k = 0; k < length; ++k)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i + k]));
    }
    i += length;
  }
  return out;
}

}  // namespace tril
