// One string out of one JSON object (RFC 8259), without building the rest: for files of a JSON object a line.
#pragma once

#include <string>
#include <string_view>

namespace tril {

// Puts the string that `object` has under `field` into `out`; "a.b" is b within the object a. Of equal keys
// the last wins. Returns what is wrong, or nothing: not one valid JSON object, no such field (the message
// names those there are), no string, half a surrogate pair. `out` is then undefined. Bytes from 0x80 are
// copied as they are: whoever uses the text checks its UTF-8.
std::string read_json_field(std::string_view object, std::string_view field, std::string& out);

}  // namespace tril
