// JSON, read and written in one place: the templates of nlohmann-json that do it take seconds to compile.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tril {

using Json = nlohmann::ordered_json;  // keys stay in the order in which they were set

// The value, or a discarded one (`is_discarded()`) if the text is not JSON. Of equal keys in an object the
// last wins; `repeated`, if given, becomes the last such key of the outermost object, or stays as it is.
Json parse_json(std::string_view text, std::string* repeated = nullptr);

// On one line, or with this indent. Invalid UTF-8 in strings is replaced.
std::string to_text(const Json& json, int indent = -1);

// The shortest decimal that is this float, not the float's double: 0.1 and not 0.10000000149011612; null if
// it is not finite.
Json shortest_number(float value);

}  // namespace tril
