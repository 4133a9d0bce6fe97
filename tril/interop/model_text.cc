#include "tril/interop/model_text.h"

#include "tril/interop/config_file.h"

namespace tril {
namespace {

constexpr const char* kTokenizerConfig = "tokenizer_config.json";
constexpr const char* kGenerationConfig = "generation_config.json";
constexpr const char* kTemplateFile = "chat_template.jinja";

// "chat_template": a text, or several with names, of which "default" is meant.
std::string read_template(const ConfigFile& file) {
  if (!file.has("chat_template")) return "";
  const Json& value = file.value("chat_template");
  if (value.is_string()) return value.get<std::string>();
  check_data(value.is_array(), "{}: \"chat_template\" is neither text nor an array", file.where());
  for (const Json& entry : value) {
    const bool whole = entry.is_object() && entry.contains("name") && entry.contains("template") &&
                       entry["name"].is_string() && entry["template"].is_string();
    check_data(whole, "{}: \"chat_template\": {} is not {{\"name\", \"template\"}}", file.where(),
               to_text(entry));
    if (entry["name"] == "default") return entry["template"].get<std::string>();
  }
  return "";
}

}  // namespace

TokenIds token_ids(const Tokenizer* tokenizer, const ModelText& text) {
  TokenIds out{.stop = text.stop_ids};
  if (tokenizer == nullptr) return out;
  const int32_t end = tokenizer->end_of_text();
  if (out.stop.empty() && end >= 0) out.stop = {end};
  out.begin = tokenizer->begin_of_text() >= 0 ? tokenizer->begin_of_text() : end;
  return out;
}

std::string tokenizer_config_json(const Tokenizer& tokenizer, int64_t context, const ModelText& text) {
  Json json;
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  json["model_max_length"] = context;
  json["clean_up_tokenization_spaces"] = false;
  const auto name = [&](int32_t id) {
    for (const SpecialToken& token : tokenizer.specials())
      if (token.id == id) return Json(token.content);
    return Json();
  };
  const TokenIds ids = token_ids(&tokenizer, text);
  if (ids.begin >= 0) json["bos_token"] = name(ids.begin);
  if (!ids.stop.empty()) json["eos_token"] = name(ids.stop.front());
  if (!text.chat_template.empty()) json["chat_template"] = text.chat_template;
  return to_text(json, 2) + "\n";
}

std::string generation_config_json(const TokenIds& ids) {
  Json json;
  json["_from_model_config"] = true;
  add_token_ids(ids, json);
  for (const char* key : {"bos_token_id", "eos_token_id"})
    if (json[key].is_null()) json.erase(key);
  return to_text(json, 2) + "\n";
}

void read_model_text(const Path& folder, ModelText& text) {
  if (std::filesystem::exists(folder / kTemplateFile)) {
    text.chat_template = read_text_file(folder / kTemplateFile);
  } else if (std::filesystem::exists(folder / kTokenizerConfig)) {
    text.chat_template = read_template(ConfigFile(folder / kTokenizerConfig));
  }
  if (!std::filesystem::exists(folder / kGenerationConfig)) return;
  std::vector<int32_t> ids = read_stop_ids(ConfigFile(folder / kGenerationConfig));
  if (!ids.empty()) text.stop_ids = std::move(ids);
}

}  // namespace tril
