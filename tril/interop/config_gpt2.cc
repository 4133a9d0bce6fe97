// Hugging Face's GPT-2.
#include <cmath>

#include "tril/base/printable.h"
#include "tril/interop/config_file.h"

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

}  // namespace

TransformerConfig read_gpt2_config(const ConfigFile& file) {
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
      file.where(), printable(activation, 60));
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

bool expressible_as_gpt2(const TransformerConfig& config, std::string& reason) {
  const TransformerConfig c = config.resolved();
  TransformerConfig gpt2 = c;
  gpt2.set_architecture("gpt");
  gpt2.activation = c.activation;
  gpt2.norm.epsilon = c.norm.epsilon;
  for (const auto& [name, field] : kBiases) gpt2.*field = c.*field;
  if (c.scale == 1.0f / std::sqrt(static_cast<float>(c.head_size))) gpt2.scale = c.scale;
  const auto refuse = [&](bool is, std::string_view why) {
    if (is && reason.empty()) reason = why;
  };
  refuse(!c.tied_head, "its head is not tied");
  refuse(is_gated(c.activation), "its MLP is gated");
  refuse(c.kv_heads != c.heads, "it has fewer key/value heads than heads");
  refuse(c.head_size * c.heads != c.channels, "its heads do not share the channels evenly");
  refuse(c.attention.positions != Positions::kLearned, "its positions are not learned");
  refuse(c != gpt2, "its norm, scale or attention is not GPT-2's");
  return reason.empty();
}

std::string gpt2_config_json(const TransformerConfig& config, DType dtype, const TokenIds& ids) {
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
  add_token_ids(ids, json);
  json["tie_word_embeddings"] = true;
  json["scale_attn_weights"] = true;
  json["torch_dtype"] = torch_name(dtype);
  for (const auto& [name, field] : kBiases) json["tril"][name] = config.*field;
  return to_text(json, 2) + "\n";
}

}  // namespace tril
