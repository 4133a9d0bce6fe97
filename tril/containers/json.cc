#include "tril/containers/json.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

namespace tril {

Json parse_json(std::string_view text, std::string* repeated) {
  if (repeated == nullptr) return Json::parse(text, nullptr, /*allow_exceptions=*/false);
  std::set<std::string> keys;
  const auto note = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::key && depth == 1) {
      std::string key = parsed.get<std::string>();
      if (!keys.insert(key).second) *repeated = std::move(key);
    }
    return true;
  };
  return Json::parse(text, note, /*allow_exceptions=*/false);
}

std::string to_text(const Json& json, int indent) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

Json shortest_number(float value) {
  return std::isfinite(value) ? parse_json(fmt::format("{}", value)) : Json(nullptr);
}

}  // namespace tril
