#include "tril/report/token_text.h"

#include <fmt/format.h>

#include "tril/base/printable.h"
#include "tril/containers/json.h"
#include "tril/text/utf8.h"

namespace tril {

std::string readable_bytes(std::string_view bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const int length = utf8_length(bytes, at);
    if (length == 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes[at++]));
    } else {
      out += bytes.substr(at, static_cast<size_t>(length));
      at += static_cast<size_t>(length);
    }
  }
  return out;
}

std::string json_string(std::string_view text) { return to_text(Json(text)); }

std::string html_text(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const size_t plain = std::min(bytes.find_first_of("&<>\"'\n\t"), bytes.size());
    if (plain > 0) {
      out += printable(bytes.substr(0, plain), plain);
      bytes.remove_prefix(plain);
      continue;
    }
    switch (bytes[0]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '\n':
        out += "\u21b5\n";
        break;
      default:
        out += "\u2192\t";
    }
    bytes.remove_prefix(1);
  }
  return out;
}

}  // namespace tril
