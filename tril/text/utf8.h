// UTF-8: validation, and streams that never show half a character.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tril {

// Byte offset of the first byte that is not part of valid UTF-8, or nothing.
std::optional<size_t> first_invalid_utf8(std::string_view text);

// Length of the character that starts at text[at] (1 to 4), 0 if invalid or truncated there.
int utf8_length(std::string_view text, size_t at);
char32_t utf8_decode(std::string_view text, size_t at);  // text[at] must start a valid character
void utf8_append(std::string& out, char32_t code_point);

// Feeds bytes, returns whole characters. Bytes that can never become valid come out as U+FFFD; an incomplete
// character at the end is held back until the next push, or flushed by finish() as U+FFFD.
class Utf8Stream {
 public:
  std::string push(std::string_view bytes);
  std::string finish();

 private:
  std::string pending_;
};

}  // namespace tril
