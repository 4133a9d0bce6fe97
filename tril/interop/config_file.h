// A config.json and its values, each checked. Used by config_*.cc only.
#pragma once

#include <set>
#include <utility>

#include "tril/containers/json.h"
#include "tril/interop/config_json.h"
#include "tril/nn/transformer_fields.h"

namespace tril {

class ConfigFile {
 public:
  explicit ConfigFile(const Path& path) : path_(path.string()), json_(parse_json(read_text_file(path))) {
    check_data(json_.is_object(), "{}: not a JSON object", path_);
  }
  ConfigFile(std::string where, Json json) : path_(std::move(where)), json_(std::move(json)) {
    check_data(json_.is_object(), "{}: not a JSON object", path_);
  }

  bool has(const char* key) const { return json_.contains(key) && !json_[key].is_null(); }
  const Json& value(const char* key) const {
    check_data(has(key), "{}: \"{}\" is missing", path_, key);
    return json_[key];
  }
  // Its text where it is one, for keys that several things can stand under.
  bool is_text(const char* key, std::string_view text) const {
    return has(key) && json_[key].is_string() && json_[key].get<std::string>() == text;
  }
  ConfigFile object(const char* key) const { return {fmt::format("{}, \"{}\"", path_, key), value(key)}; }

  int64_t size(const char* key) const {
    const Json& v = value(key);
    check_data(v.is_number_unsigned() && v.get<uint64_t>() <= uint64_t{1} << 40,
               "{}: \"{}\" is {}; a whole number from 0 is expected", path_, key, to_text(v));
    return v.get<int64_t>();
  }
  bool flag(const char* key, bool missing) const {
    if (!has(key)) return missing;
    check_data(value(key).is_boolean(), "{}: \"{}\" is {}; true or false is expected", path_, key,
               to_text(value(key)));
    return value(key).get<bool>();
  }
  float number(const char* key, float missing) const {
    if (!has(key)) return missing;
    check_data(value(key).is_number(), "{}: \"{}\" is {}; a number is expected", path_, key,
               to_text(value(key)));
    return value(key).get<float>();
  }
  std::string text(const char* key) const {
    check_data(value(key).is_string(), "{}: \"{}\" is {}; text is expected", path_, key, to_text(value(key)));
    return value(key).get<std::string>();
  }
  // Sets `field`; a key that is missing leaves it, unless `required`.
  template <class T>
  void read(const char* key, T& field, bool required) const {
    if (!has(key) && !required) return;
    value(key);
    if constexpr (std::is_same_v<T, bool>) {
      field = flag(key, field);
    } else if constexpr (std::is_same_v<T, float>) {
      field = number(key, field);
    } else if constexpr (std::is_same_v<T, int64_t>) {
      field = size(key);
    } else {
      const std::string name = text(key);
      try {
        from_name(name, field);
      } catch (const Error& error) {
        fail(ErrorKind::kData, "{}: \"{}\": {}", path_, key, error.what());
      }
    }
  }
  void refuse_flag(const char* key, bool only) const {
    check_data(flag(key, only) == only, "{}: \"{}\" is {}, which tril cannot compute", path_, key, !only);
  }
  const std::string& where() const { return path_; }
  void refuse_others(const std::set<std::string>& known) const {
    for (const auto& [key, value] : json_.items())
      check_data(known.contains(key), "{}: \"{}\" is not known; was the file written by a newer tril?", path_,
                 key);
  }

 private:
  std::string path_;
  Json json_;
};

TransformerConfig read_gpt2_config(const ConfigFile& file);
TransformerConfig read_tril_config(const ConfigFile& file);
// `type`: llama, mistral, qwen2 or qwen3.
TransformerConfig read_llama_config(const ConfigFile& file, std::string_view type);

// "eos_token_id": nothing, a number or several.
std::vector<int32_t> read_stop_ids(const ConfigFile& file);

}  // namespace tril
