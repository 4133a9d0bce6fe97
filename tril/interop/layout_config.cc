#include <cmath>
#include <utility>

#include "tril/containers/json.h"
#include "tril/interop/layout.h"
#include "tril/interop/model_folder.h"

namespace tril {
namespace {

constexpr float kNormEpsilon = 1e-5f;  // of kernels/layer_norm.h

constexpr std::pair<std::string_view, Activation> kGpt2Activations[] = {
    {"gelu_new", Activation::kGeluTanh},
    {"gelu_pytorch_tanh", Activation::kGeluTanh},
    {"gelu", Activation::kGeluErf},
    {"relu", Activation::kRelu}};

// In a GPT-2 config.json these stand in the object "tril"; other programs have all four, and read zeros.
constexpr std::pair<const char*, bool TransformerConfig::*> kBiases[] = {
    {"qkv_bias", &TransformerConfig::qkv_bias},
    {"projection_bias", &TransformerConfig::projection_bias},
    {"mlp_bias", &TransformerConfig::mlp_bias},
    {"norm_bias", &TransformerConfig::norm_bias}};

constexpr std::pair<const char*, bool TransformerConfig::*> kHeadFlags[] = {
    {"tied_head", &TransformerConfig::tied_head}, {"lm_head_bias", &TransformerConfig::lm_head_bias}};

constexpr std::pair<const char*, int64_t TransformerConfig::*> kSizes[] = {
    {"vocabulary", &TransformerConfig::vocabulary}, {"context", &TransformerConfig::context},
    {"channels", &TransformerConfig::channels},     {"layers", &TransformerConfig::layers},
    {"heads", &TransformerConfig::heads},           {"kv_heads", &TransformerConfig::kv_heads},
    {"head_size", &TransformerConfig::head_size},   {"mlp_hidden", &TransformerConfig::mlp_hidden}};

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
  void refuse_flag(const char* key, bool only) const {
    check_data(flag(key, only) == only, "{}: \"{}\" is {}, which tril cannot compute", path_, key, !only);
  }
  const std::string& where() const { return path_; }

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
  check_data(known,
             "{}: \"activation_function\" is \"{}\"; tril has gelu_new, gelu_pytorch_tanh, gelu and relu",
             file.where(), activation);
  const float epsilon = file.number("layer_norm_epsilon", kNormEpsilon);
  check_data(std::abs(epsilon / kNormEpsilon - 1) < 1e-3f, "{}: \"layer_norm_epsilon\" is {}; tril has 1e-05",
             file.where(), epsilon);
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
  check_data(file.size("format") == 1, "{}: format {} was written by a newer tril", file.where(),
             file.size("format"));
  for (const auto& [name, field] : kSizes) c.*field = file.size(name);
  for (const auto& [name, field] : kBiases) c.*field = file.flag(name, c.*field);
  for (const auto& [name, field] : kHeadFlags) c.*field = file.flag(name, c.*field);
  try {
    c.activation = activation_from_name(file.text("activation"));
  } catch (const Error& error) {
    fail(ErrorKind::kData, "{}: \"activation\": {}", file.where(), error.what());
  }
  c.scale = file.number("scale", 0);
  c.dropout = file.number("dropout", 0);
  return c;
}

}  // namespace

bool expressible_as_gpt2(const TransformerConfig& config) {
  const TransformerConfig c = config.resolved();
  const bool usual_scale = c.scale == 0 || c.scale == 1.0f / std::sqrt(static_cast<float>(c.head_size));
  return c.tied_head && !c.lm_head_bias && c.kv_heads == c.heads && c.head_size * c.heads == c.channels &&
         usual_scale;
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
  json["activation_function"] = config.activation == Activation::kGeluTanh  ? "gelu_new"
                                : config.activation == Activation::kGeluErf ? "gelu"
                                                                            : "relu";
  json["layer_norm_epsilon"] = shortest_number(kNormEpsilon);
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
  json["format"] = 1;
  json["architecture"] = config.architecture();
  for (const auto& [name, field] : kSizes) json[name] = config.*field;
  json["activation"] = activation_name(config.activation);
  for (const auto& [name, field] : kBiases) json[name] = config.*field;
  for (const auto& [name, field] : kHeadFlags) json[name] = config.*field;
  json["scale"] = shortest_number(config.scale);
  json["dropout"] = shortest_number(config.dropout);
  return to_text(json, 2) + "\n";
}

TransformerConfig read_config_json(const Path& path, std::string& layout) {
  const ConfigFile file(path);
  layout = file.text("model_type");
  check_data(layout == "gpt2" || layout == "tril", "{}: \"model_type\" is \"{}\"; tril reads gpt2 and tril",
             path.string(), layout);
  const TransformerConfig config = layout == "gpt2" ? read_gpt2(file) : read_tril(file);
  try {
    return config.resolved();
  } catch (const Error& error) {
    fail(ErrorKind::kData, "{}: {}", path.string(), error.what());
  }
}

}  // namespace tril
