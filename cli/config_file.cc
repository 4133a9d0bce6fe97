// Config files of `tril train`: the option names as keys, flat, in TOML or JSON; or the run.json of a run.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "cli/train_options.h"
#include "tril/base/error.h"
#include "tril/base/files.h"
#include "tril/containers/json.h"

namespace tril::cli {
namespace {

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

// One value of TOML: "text", 'text', a number (with _ between digits) or a boolean; a comment may follow.
std::string toml_value(std::string_view text, const std::string& where) {
  check_use(!text.empty(), "{}: no value after =", where);
  const char quote = text[0];
  std::string value;
  size_t at = 1;
  if (quote == '"' || quote == '\'') {
    for (; at < text.size() && text[at] != quote; ++at) {
      if (quote == '"' && text[at] == '\\' && at + 1 < text.size()) {
        ++at;
        check_use(text[at] == '"' || text[at] == '\\',
                  "{}: the escape \\{} cannot be read here; write 'single quotes', in which \\ is itself",
                  where, text[at]);
      }
      value += text[at];
    }
    check_use(at < text.size(), "{}: the quote {} is not closed", where, quote);
    ++at;
  } else {
    at = std::min(text.find('#'), text.size());
    for (const char c : trimmed(text.substr(0, at)))
      if (c != '_') value += c;
    check_use(!value.empty() && value.find_first_of("[]{}, ") == std::string::npos,
              "{}: only text in quotes, numbers, true and false can be read here", where);
  }
  const std::string_view rest = trimmed(text.substr(at));
  check_use(rest.empty() || rest[0] == '#', "{}: '{}' after the value", where, rest);
  return value;
}

std::vector<ConfigEntry> read_toml(const std::string& path, std::string_view text) {
  std::vector<ConfigEntry> entries;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.empty() || line[0] == '#') continue;
    const size_t equals = line.find('=');
    check_use(equals != std::string_view::npos, "{} line {}: '{}' is not `name = value`", path, number, line);
    std::string name(trimmed(line.substr(0, equals)));
    const bool quoted = name.size() > 1 && name.front() == name.back() && (name[0] == '"' || name[0] == '\'');
    if (quoted) name = name.substr(1, name.size() - 2);
    check_use(!name.empty(), "{} line {}: no name before =", path, number);
    const std::string where = fmt::format("{} line {}: {}", path, number, name);
    entries.push_back({name, toml_value(trimmed(line.substr(equals + 1)), where), where});
  }
  return entries;
}

// The options of a run.json: those that are not as they are without being given.
Json options_of_run(const Json& run) {
  const Json usual = parse_json(options_to_json({}));
  Json options = Json::object();
  for (const auto& [name, value] : run["options"].items())
    if (value != usual.value(name, Json())) options[name] = value;
  return options;
}

std::vector<ConfigEntry> read_json(const std::string& path, const std::string& text) {
  std::string repeated;
  Json root = parse_json(text, &repeated);
  check_use(!root.is_discarded(), "{}: not valid JSON; write {{\"layers\": 4, ...}}", path);
  check_use(root.is_object(), "{}: the JSON is not an object; write {{\"layers\": 4, ...}}", path);
  check_use(repeated.empty(), "{}: {} is given twice; keep one", path, repeated);
  if (root.contains("history") && root.value("options", Json()).is_object()) root = options_of_run(root);
  std::vector<ConfigEntry> entries;
  for (const auto& [name, value] : root.items()) {
    const std::string where = fmt::format("{}: {}", path, name);
    check_use(value.is_primitive() && !value.is_null(),
              "{}: only text, numbers, true and false can be read here", where);
    entries.push_back({name, value.is_string() ? value.get<std::string>() : to_text(value), where});
  }
  return entries;
}

}  // namespace

std::vector<ConfigEntry> read_config_file(const std::string& path) {
  std::string text = read_text_file(path);
  if (text.starts_with("\xef\xbb\xbf")) text.erase(0, 3);  // a byte order mark
  const size_t first = text.find_first_not_of(" \t\r\n");
  const bool json = path.ends_with(".json") || (first != std::string::npos && text[first] == '{');
  std::vector<ConfigEntry> entries = json ? read_json(path, text) : read_toml(path, text);
  std::set<std::string> names;
  for (ConfigEntry& entry : entries) {
    std::replace(entry.name.begin(), entry.name.end(), '_', '-');
    check_use(names.insert(entry.name).second, "{}: given twice; keep one", entry.where);
  }
  return entries;
}

}  // namespace tril::cli
