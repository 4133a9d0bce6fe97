// GPT-2's byte alphabet: a printable character for each byte, so that any bytes can stand in a JSON string.
// The bytes that are printable in Latin-1 stand for themselves, the other 68, in order, are U+0100 and on.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tril {

struct ByteAlphabet {
  std::array<char32_t, 256> character;  // of a byte
  std::array<uint8_t, 256> order;       // the bytes in the order of GPT-2's ids 0 .. 255: '!' first
};
const ByteAlphabet& byte_alphabet();

// Bytes that every tokenizer must have a token for: what a vocabulary lacks beyond these (control characters,
// bytes of rare scripts) its training text lacked, and a text that has them is refused.
constexpr bool is_needed_byte(int byte) {
  return (byte >= 0x20 && byte < 0x7F) || byte == '\t' || byte == '\n';
}

std::string spell_bytes(std::string_view bytes);
// Nothing if a character is not of the alphabet; `spelled` must be valid UTF-8.
std::optional<std::string> unspell_bytes(std::string_view spelled);

}  // namespace tril
