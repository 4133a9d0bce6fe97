// Text that came from a file or a user, made safe to show inside a one-line message.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tril {

// Control characters, invalid UTF-8, and characters that break or reorder a line are written as \xNN, byte by
// byte; the rest is unchanged. More than `limit` bytes of text are cut and end in "...".
std::string printable(std::string_view text, size_t limit = 200);

}  // namespace tril
