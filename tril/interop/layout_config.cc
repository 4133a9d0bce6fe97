#include <cmath>
#include <set>
#include <utility>

#include "tril/containers/json.h"
#include "tril/interop/config_json.h"
#include "tril/nn/transformer_fields.h"

namespace tril {
namespace {

constexpr std::pair<std::string_view, Activation> kGpt2Activations[] = {
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu", Activation::kGeluErf},
    {"relu", Activation::kRelu},
    {"silu", Activation::kSilu}};

// In a GPT-2 config.json these stand in the object "tril"; other programs have all four, and read zeros.
constexpr std::pair<const char*, bool TransformerConfig::*> kBiases[] = {
    {"qkv_bias", &TransformerConfig::qkv_bias},
    {"projection_bias", &TransformerConfig::projection_bias},
    {"mlp_bias", &TransformerConfig::mlp_bias},
    {"norm_bias", &TransformerConfig::norm_bias}};

// A config.json and its values, each checked.
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

TransformerConfig read_gpt2(const ConfigFile& file) {
  TransformerConfig c;
  c.set_architecture("gpt");
  c.vocabulary = file.size("vocab_size");
  c.context = file.size("n_positions");
  c.channels = file.size("n_embd");
  c.layers = file.size("n_layer");
  c.heads = file.size("n_head");
  c.mlp_hidden = file.has("n_inner") ? file.size("n_inner") : 4 * c.channels;
  const std::string activation =
      file.has("activation_function") ? file.text("activation_function") : "gelu_new";
  bool known = false;
  for (const auto& [name, value] : kGpt2Activations) {
    if (name == activation) c.activation = value, known = true;
  }
  check_data(
      known,
      "{}: \"activation_function\" is \"{}\"; tril has gelu_new, gelu_pytorch_tanh, gelu, relu and silu",
      file.where(), activation);
  c.norm.epsilon = file.number("layer_norm_epsilon", c.norm.epsilon);
  file.refuse_flag("scale_attn_by_inverse_layer_idx", false);
  file.refuse_flag("add_cross_attention", false);
  if (!file.flag("scale_attn_weights", true)) c.scale = 1;
  c.tied_head = file.flag("tie_word_embeddings", true);
  c.dropout = file.number("resid_pdrop", 0.1f);
  if (file.has("tril")) {
    const ConfigFile own = file.object("tril");
    for (const auto& [name, field] : kBiases) c.*field = own.flag(name, c.*field);
  }
  return c;
}

TransformerConfig read_tril(const ConfigFile& file) {
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

TransformerConfig resolve(const ConfigFile& file, const TransformerConfig& config) {
  try {
    return config.resolved();
  } catch (const Error& error) {
    fail(ErrorKind::kData, "{}: {}", file.where(), error.what());
  }
}

}  // namespace

bool expressible_as_gpt2(const TransformerConfig& config) {
  const TransformerConfig c = config.resolved();
  TransformerConfig gpt2 = c;
  gpt2.set_architecture("gpt");
  gpt2.activation = c.activation;
  gpt2.norm.epsilon = c.norm.epsilon;
  for (const auto& [name, field] : kBiases) gpt2.*field = c.*field;
  if (c.scale == 1.0f / std::sqrt(static_cast<float>(c.head_size))) gpt2.scale = c.scale;
  return c == gpt2 && !is_gated(c.activation) && c.kv_heads == c.heads && c.head_size * c.heads == c.channels;
}

std::string gpt2_config_json(const TransformerConfig& config, int32_t end_of_text) {
  Json json;
  json["architectures"] = {"GPT2LMHeadModel"};
  json["model_type"] = "gpt2";
  json["vocab_size"] = config.vocabulary;
  json["n_positions"] = config.context;
  json["n_ctx"] = config.context;
  json["n_embd"] = config.channels;
  json["n_layer"] = config.layers;
  json["n_head"] = config.heads;
  json["n_inner"] = config.mlp_hidden == 4 * config.channels ? Json(nullptr) : Json(config.mlp_hidden);
  for (const auto& [name, value] : kGpt2Activations) {
    if (value == config.activation && !json.contains("activation_function"))
      json["activation_function"] = name;
  }
  json["layer_norm_epsilon"] = shortest_number(config.norm.epsilon);
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"})
    json[key] = shortest_number(config.dropout);
  for (const char* key : {"bos_token_id", "eos_token_id"})
    json[key] = end_of_text >= 0 ? Json(end_of_text) : Json();
  json["tie_word_embeddings"] = true;
  json["scale_attn_weights"] = true;
  json["torch_dtype"] = "float32";
  for (const auto& [name, field] : kBiases) json["tril"][name] = config.*field;
  return to_text(json, 2) + "\n";
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

ReadConfig read_config_json(const Path& path) {
  const ConfigFile file(path);
  const std::string type = file.text("model_type");
  check_data(type == "gpt2" || type == "tril", "{}: \"model_type\" is \"{}\"; tril reads gpt2 and tril",
             path.string(), type);
  ReadConfig out{.config = resolve(file, type == "gpt2" ? read_gpt2(file) : read_tril(file))};
  out.layout = type == "gpt2" ? gpt2_layout(out.config) : tril_layout(out.config);
  return out;
}

TransformerConfig parse_tril_config(std::string_view json, const std::string& where) {
  const ConfigFile file(where, parse_json(json));
  return resolve(file, read_tril(file));
}

}  // namespace tril
