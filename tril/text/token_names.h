// Names that tokens have in the files of others.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tril {

// The longest token whose parts are looked for in pairs; those of known models have some 100 bytes.
inline constexpr size_t kLongestToken = 512;

// U+2581, which stands for a space in SentencePiece's tokens.
inline constexpr std::string_view kMetaspaceCharacter = "\xE2\x96\x81";
std::string with_replaced(std::string_view text, std::string_view from, std::string_view to);

// SentencePiece's tokens of bytes: "<0x0A>".
std::string byte_token_name(uint8_t byte);
std::optional<uint8_t> byte_token_value(std::string_view name);

}  // namespace tril
