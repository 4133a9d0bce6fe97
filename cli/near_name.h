// "did you mean": the name nearest to a mistyped one.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace tril::cli {

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

// The nearest candidate if it is near enough to be meant, else "".
std::string near_name(std::string_view name, std::span<const std::string> candidates);

// "; did you mean X?" or "".
std::string suggestion(std::string_view name, std::span<const std::string> candidates);

}  // namespace tril::cli
