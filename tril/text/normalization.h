// Unicode's normalization form C (UAX #15): composed characters where there are some, marks in one order.
#pragma once

#include <string>
#include <string_view>

namespace tril {

// True if a look at the bytes is enough to know that the text is in form C: no character from U+0300 on.
bool is_surely_nfc(std::string_view text);

// Bytes that are not valid UTF-8 stay, and nothing is composed across them.
std::string to_nfc(std::string_view text);

}  // namespace tril
