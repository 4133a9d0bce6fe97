#include "tril/text/byte_alphabet.h"

#include "tril/text/utf8.h"

namespace tril {
namespace {

bool stands_for_itself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
}

ByteAlphabet make_alphabet() {
  ByteAlphabet alphabet;
  size_t placed = 0;
  for (int byte = 0; byte < 256; ++byte) {
    if (!stands_for_itself(byte)) continue;
    alphabet.character[static_cast<size_t>(byte)] = static_cast<char32_t>(byte);
    alphabet.order[placed++] = static_cast<uint8_t>(byte);
  }
  char32_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    if (stands_for_itself(byte)) continue;
    alphabet.character[static_cast<size_t>(byte)] = next++;
    alphabet.order[placed++] = static_cast<uint8_t>(byte);
  }
  return alphabet;
}

}  // namespace

const ByteAlphabet& byte_alphabet() {
  static const ByteAlphabet alphabet = make_alphabet();
  return alphabet;
}

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    utf8_append(out, byte_alphabet().character[static_cast<unsigned char>(byte)]);
  }
  return out;
}

std::optional<std::string> unspell_bytes(std::string_view spelled) {
  constexpr size_t kEnd = 0x100 + 68;
  static const std::array<int, kEnd> bytes = [] {
    std::array<int, kEnd> table{};
    table.fill(-1);
    for (int byte = 0; byte < 256; ++byte) table[byte_alphabet().character[static_cast<size_t>(byte)]] = byte;
    return table;
  }();
  std::string out;
  for (size_t at = 0; at < spelled.size();) {
    const int length = utf8_length(spelled, at);
    if (length == 0) return std::nullopt;
    const char32_t character = utf8_decode(spelled, at);
    if (character >= kEnd || bytes[character] < 0) return std::nullopt;
    out.push_back(static_cast<char>(bytes[character]));
    at += static_cast<size_t>(length);
  }
  return out;
}

}  // namespace tril
