// The bytes of a token, made safe for a page or a JSON text. A token may hold half a character, or anything.
#pragma once

#include <string>
#include <string_view>

namespace tril {

// Bytes that are no part of a whole character become \xNN; the rest is unchanged.
std::string readable_bytes(std::string_view bytes);

// With quotes and escapes, as JSON writes it; `text` must be UTF-8.
std::string json_string(std::string_view text);

// For HTML's text and quoted attributes: nothing of it can be markup, hide, or reorder what stands around it.
// Control characters and broken ones become \xNN; a line break or tab is kept with a sign before it.
std::string html_text(std::string_view bytes);

}  // namespace tril
