// tril's own config.json, and whichever there is.
#include "tril/base/printable.h"
#include "tril/interop/config_file.h"

namespace tril {

TransformerConfig read_tril_config(const ConfigFile& file) {
  TransformerConfig c;
  // Format 1 had the sizes, biases and activation of GPT-2's block; format 2 has every field.
  const int64_t format = file.size("format");
  check_data(format == 1 || format == 2, "{}: \"format\" is {}; this tril reads 1 and 2", file.where(),
             format);
  std::set<std::string> known = {"model_type", "format", "architecture"};
  const auto read = [&](const char* name, auto& field, bool required) {
    file.read(name, field, required);
    known.insert(name);
  };
  visit_sizes(c, [&](const char* name, int64_t& field) { read(name, field, true); });
  visit_architecture(c, [&](const char* name, auto& field) {
    read(name, field, format == 2 || std::string_view(name) == "activation");
  });
  read("dropout", c.dropout, format == 2);
  read("z_loss", c.z_loss, format == 2);
  if (format == 1) return c;
  file.refuse_others(known);
  check_data(file.text("architecture") == c.architecture(),
             "{}: \"architecture\" is \"{}\", but the other values are those of {}", file.where(),
             file.text("architecture"), c.architecture());
  return c;
}

std::string tril_config_json(const TransformerConfig& config) {
  Json json;
  json["model_type"] = "tril";
  json["format"] = 2;
  json["architecture"] = config.architecture();
  visit_sizes(config, [&](const char* name, int64_t value) { json[name] = value; });
  visit_architecture(config, [&](const char* name, const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (std::is_enum_v<T>)
      json[name] = name_of(value);
    else if constexpr (std::is_floating_point_v<T>)
      json[name] = shortest_number(value);
    else
      json[name] = value;
  });
  json["z_loss"] = shortest_number(config.z_loss);
  json["dropout"] = shortest_number(config.dropout);
  return to_text(json, 2) + "\n";
}

void add_token_ids(const TokenIds& ids, Json& json) {
  json["bos_token_id"] = ids.begin >= 0 ? Json(ids.begin) : Json();
  json["eos_token_id"] = ids.stop.empty()       ? Json()
                         : ids.stop.size() == 1 ? Json(ids.stop[0])
                                                : Json(ids.stop);
}

std::string_view torch_name(DType dtype) {
  return dtype == DType::kF16 ? "float16" : dtype == DType::kBF16 ? "bfloat16" : "float32";
}

std::vector<int32_t> read_stop_ids(const ConfigFile& file) {
  std::vector<int32_t> out;
  if (!file.has("eos_token_id")) return out;
  const Json& value = file.value("eos_token_id");
  for (const Json& id : value.is_array() ? value : Json::array({value})) {
    check_data(id.is_number_integer(), "{}: \"eos_token_id\" is {}; whole numbers are expected", file.where(),
               to_text(value));
    // One that no model has can end no text: it is left out.
    const auto number = id.get<int64_t>();
    if (number >= 0 && number <= INT32_MAX) out.push_back(static_cast<int32_t>(number));
  }
  return out;
}

ReadConfig read_config_json(const Path& path) {
  const ConfigFile file(path);
  const std::string type = file.text("model_type");
  const bool llama = type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3";
  check_data(
      !file.has("quantization_config"),
      "{}: the weights are quantised (\"quantization_config\"), which tril does not read; get the model "
      "in f32, f16 or bf16, or as GGUF in q8_0 or q4_0",
      path.string());
  check_data(!type.starts_with("gemma"),
             "{}: \"model_type\" is \"{}\": its embeddings are scaled and its head is not, which tril cannot "
             "compute; tril reads gpt2, llama, mistral, qwen2, qwen3 and tril",
             path.string(), printable(type, 60));
  check_data(llama || type == "gpt2" || type == "tril",
             "{}: \"model_type\" is \"{}\"; tril reads gpt2, llama, mistral, qwen2, qwen3 and tril",
             path.string(), printable(type, 60));
  ReadConfig out;
  out.config = resolved_of_file(llama            ? read_llama_config(file, type)
                                : type == "gpt2" ? read_gpt2_config(file)
                                                 : read_tril_config(file),
                                file.where());
  out.layout = llama            ? llama_layout(out.config)
               : type == "gpt2" ? gpt2_layout(out.config)
                                : tril_layout(out.config);
  out.stop_ids = read_stop_ids(file);
  return out;
}

TransformerConfig parse_tril_config(std::string_view json, const std::string& where) {
  const ConfigFile file(where, parse_json(json));
  return resolved_of_file(read_tril_config(file), file.where());
}

}  // namespace tril
