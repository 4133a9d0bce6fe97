#include "tril/text/utf8.h"

#include <cstring>

namespace tril {
namespace {

struct Prefix {
  int needed = 0;  // length of the character that the first byte announces, 0 if no character starts so
  int valid = 0;   // how many bytes are here and in order
};

// The well-formed byte sequences of the Unicode Standard, table 3-7.
Prefix scan(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return {1, 1};
  if (lead < 0xC2 || lead > 0xF4) return {0, 0};
  const int needed = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  unsigned char low = 0x80, high = 0xBF;  // bounds of the second byte: no overlong forms, no surrogates
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  int valid = 1;
  while (valid < needed && at + static_cast<size_t>(valid) < text.size()) {
    const unsigned char next = byte(at + static_cast<size_t>(valid));
    if (next < low || next > high) break;
    low = 0x80;
    high = 0xBF;
    ++valid;
  }
  return {needed, valid};
}

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace

int utf8_length(std::string_view text, size_t at) {
  if (at >= text.size()) return 0;
  const Prefix prefix = scan(text, at);
  return prefix.valid == prefix.needed ? prefix.needed : 0;
}

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    uint64_t eight = 0;
    if (at + 8 <= text.size()) {
      std::memcpy(&eight, text.data() + at, 8);
      if ((eight & 0x8080808080808080) == 0) {
        at += 8;
        continue;
      }
      // The common letters beyond ASCII: two bytes, and three that are neither overlong nor surrogates.
      while (at + 8 <= text.size()) {
        uint32_t four = 0;
        std::memcpy(&four, text.data() + at, 4);
        if ((four & 0x80) == 0) {
          at += 1;
        } else if ((four & 0xC0E0) == 0x80C0 && (four & 0x1E) != 0) {
          at += 2;
        } else if ((four & 0xC0C0F0) == 0x8080E0 && (four & 0x200F) != 0 && (four & 0x200F) != 0x200D) {
          at += 3;
        } else {
          break;
        }
        if ((four & 0x8080) == 0 && (at & 7) == 0) break;  // ASCII again
      }
    }
    const int length = utf8_length(text, at);
    if (length == 0) return at;
    at += static_cast<size_t>(length);
  }
  return std::nullopt;
}

char32_t utf8_decode(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  switch (utf8_length(text, at)) {
    case 1:
      return byte(0);
    case 2:
      return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3:
      return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    case 4:
      return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    default:
      return 0xFFFD;
  }
}

void utf8_append(std::string& out, char32_t c) {
  const auto put = [&](char32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

std::string Utf8Stream::push(std::string_view bytes) {
  pending_.append(bytes);
  std::string out;
  size_t at = 0;
  while (at < pending_.size()) {
    const Prefix prefix = scan(pending_, at);
    const auto valid = static_cast<size_t>(prefix.valid);
    if (prefix.needed > 0 && prefix.valid == prefix.needed) {
      out.append(pending_, at, valid);
      at += valid;
    } else if (prefix.needed > 0 && at + valid == pending_.size()) {
      break;  // may still become whole
    } else {
      // One replacement for the longest start of a character (Unicode Standard, section 3.9).
      out.append(kReplacement);
      at += valid > 0 ? valid : 1;
    }
  }
  pending_.erase(0, at);
  return out;
}

std::string Utf8Stream::finish() {
  const bool cut = !pending_.empty();
  pending_.clear();
  return cut ? std::string(kReplacement) : std::string();
}

}  // namespace tril
