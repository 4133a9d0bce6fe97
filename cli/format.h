// Numbers as people read them, and words as shells read them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril::cli {

std::string format_bytes(double bytes);       // "1.5 GB"
std::string format_count(int64_t count);      // "12,345"
std::string format_duration(double seconds);  // "2 min 05 s"
std::string shell_quote(std::string_view word);
// On one line and safe to show; line breaks become spaces.
std::string one_line(std::string_view text);
// What a user typed for a line break: \n, \r, \t and \\ become what they stand for.
std::string unescaped(std::string_view text);

}  // namespace tril::cli
