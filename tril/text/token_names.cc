#include "tril/text/token_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "tril/text/tokenizer_parts.h"

namespace tril {

std::string with_replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  size_t at = 0;
  for (size_t found; (found = text.find(from, at)) != std::string_view::npos; at = found + from.size())
    out.append(text.substr(at, found - at)).append(to);
  return out.append(text.substr(at));
}

std::string byte_token_name(uint8_t byte) { return fmt::format("<0x{:02X}>", byte); }

std::optional<uint8_t> byte_token_value(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  if (name.size() != 6 || !name.starts_with("<0x") || name[5] != '>') return std::nullopt;
  const size_t high = kDigits.find(name[3]), low = kDigits.find(name[4]);
  if (high == kDigits.npos || low == kDigits.npos) return std::nullopt;
  return static_cast<uint8_t>(high << 4 | low);
}

void find_text_ends(TokenizerParts& parts) {
  // GPT-2 and Qwen, Llama-3, Llama and Mistral, DeepSeek.
  constexpr std::string_view kNames[] = {kEndOfText, "<|end_of_text|>", "</s>",
                                         "<\xEF\xBD\x9C"
                                         "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>"};
  for (const std::string_view name : kNames) {
    if (parts.end_of_text >= 0) return;
    const auto found =
        std::find_if(parts.specials.begin(), parts.specials.end(),
                     [&](const SpecialToken& token) { return token.control && token.content == name; });
    if (found != parts.specials.end()) parts.end_of_text = found->id;
  }
}

}  // namespace tril
