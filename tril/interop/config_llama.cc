// Hugging Face's Llama and the models that share its block: Mistral (a window), Qwen-2 (biases of query, key
// and value alone), Qwen-3 (normalised queries and keys).
#include <algorithm>
#include <cmath>

#include "tril/base/printable.h"
#include "tril/interop/config_file.h"

namespace tril {
namespace {

// The first name of each is the one that is written.
constexpr std::pair<std::string_view, Activation> kGates[] = {{"silu", Activation::kSwiGlu},
                                                              {"swish", Activation::kSwiGlu},
                                                              {"gelu_pytorch_tanh", Activation::kGeGlu},
                                                              {"gelu_new", Activation::kGeGlu}};

constexpr std::pair<std::string_view, RopeScaling> kScalings[] = {{"default", RopeScaling::kNone},
                                                                  {"linear", RopeScaling::kLinear},
                                                                  {"llama3", RopeScaling::kLlama3},
                                                                  {"yarn", RopeScaling::kYarn}};

constexpr std::pair<std::string_view, std::string_view> kClasses[] = {{"llama", "LlamaForCausalLM"},
                                                                      {"mistral", "MistralForCausalLM"},
                                                                      {"qwen2", "Qwen2ForCausalLM"},
                                                                      {"qwen3", "Qwen3ForCausalLM"}};

// An object "rope_parameters" or "rope_scaling".
void read_rope(const ConfigFile& rope, int64_t context, RopeConfig& out) {
  rope.read("rope_theta", out.base, false);
  const char* const key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.has(key) ? rope.text(key) : "default";
  const auto* known = std::find_if(std::begin(kScalings), std::end(kScalings),
                                   [&](const auto& s) { return s.first == type; });
  check_data(known != std::end(kScalings),
             "{}: \"{}\" is \"{}\", which tril cannot compute; it has default, linear, llama3 and yarn",
             rope.where(), key, printable(type, 60));
  check_data(rope.number("partial_rotary_factor", 1) == 1,
             "{}: \"partial_rotary_factor\" is not 1, which tril cannot compute", rope.where());
  out.scaling = known->second;
  if (out.scaling == RopeScaling::kNone) return;
  rope.read("factor", out.factor, true);
  if (out.scaling == RopeScaling::kLinear) return;
  out.original_context = context;
  rope.read("original_max_position_embeddings", out.original_context, out.scaling == RopeScaling::kLlama3);
  if (out.scaling == RopeScaling::kLlama3) {
    rope.read("low_freq_factor", out.low_frequency_factor, true);
    rope.read("high_freq_factor", out.high_frequency_factor, true);
    return;
  }
  for (const char* other : {"mscale", "mscale_all_dim"})
    check_data(!rope.has(other), "{}: \"{}\" is set, which tril cannot compute", rope.where(), other);
  check_data(rope.flag("truncate", true), "{}: \"truncate\" is false, which tril cannot compute",
             rope.where());
  rope.read("beta_fast", out.beta_fast, false);
  rope.read("beta_slow", out.beta_slow, false);
  rope.read("attention_factor", out.attention_factor, false);
}

Json rope_json(const RopeConfig& rope) {
  Json json;
  for (const auto& [name, scaling] : kScalings)
    if (scaling == rope.scaling) json["rope_type"] = name;
  json["rope_theta"] = shortest_number(rope.base);
  if (rope.scaling == RopeScaling::kNone) return json;
  json["factor"] = shortest_number(rope.factor);
  if (rope.scaling == RopeScaling::kLinear) return json;
  json["original_max_position_embeddings"] = rope.original_context;
  if (rope.scaling == RopeScaling::kLlama3) {
    json["low_freq_factor"] = shortest_number(rope.low_frequency_factor);
    json["high_freq_factor"] = shortest_number(rope.high_frequency_factor);
  } else {
    json["beta_fast"] = shortest_number(rope.beta_fast);
    json["beta_slow"] = shortest_number(rope.beta_slow);
    if (rope.attention_factor != 0) json["attention_factor"] = shortest_number(rope.attention_factor);
  }
  return json;
}

// Which layers have the window: all or none.
void check_layer_types(const ConfigFile& file, int64_t window) {
  if (!file.has("layer_types")) return;
  const std::string_view expected = window > 0 ? "sliding_attention" : "full_attention";
  const Json& types = file.value("layer_types");
  check_data(types.is_array(), "{}: \"layer_types\" is no array", file.where());
  for (const Json& type : types)
    check_data(type == expected,
               "{}: \"layer_types\" has {} where {} is expected: tril's layers are all alike", file.where(),
               to_text(type), expected);
}

}  // namespace

TransformerConfig read_llama_config(const ConfigFile& file, std::string_view type) {
  TransformerConfig c;
  c.set_architecture("llama");
  c.vocabulary = file.size("vocab_size");
  c.context = file.size("max_position_embeddings");
  c.channels = file.size("hidden_size");
  c.layers = file.size("num_hidden_layers");
  c.heads = file.size("num_attention_heads");
  // What a missing key means is up to each model; only Llama's meanings follow from the other sizes.
  file.read("num_key_value_heads", c.kv_heads, type != "llama");
  file.read("head_dim", c.head_size, type == "qwen3");
  c.mlp_hidden = file.size("intermediate_size");
  c.norm.epsilon = file.number("rms_norm_eps", 1e-6f);
  c.tied_head = file.flag("tie_word_embeddings", false);
  const std::string gate = file.has("hidden_act") ? file.text("hidden_act") : "silu";
  const auto* known =
      std::find_if(std::begin(kGates), std::end(kGates), [&](const auto& g) { return g.first == gate; });
  check_data(known != std::end(kGates),
             "{}: \"hidden_act\" is \"{}\"; tril has silu, gelu_pytorch_tanh and gelu_new", file.where(),
             printable(gate, 60));
  c.activation = known->second;
  c.qkv_bias = type == "qwen2";
  if (type == "llama" || type == "qwen3") c.qkv_bias = c.projection_bias = file.flag("attention_bias", false);
  if (type == "llama") c.mlp_bias = file.flag("mlp_bias", false);
  c.attention.qk_norm = type == "qwen3";
  if (type == "mistral") {
    file.read("sliding_window", c.attention.window, false);
  } else {
    check_data(
        !file.flag("use_sliding_window", false),
        "{}: \"use_sliding_window\" is true: some layers have a window and others not, which tril cannot "
        "compute",
        file.where());
  }
  check_layer_types(file, c.attention.window);
  RopeConfig& rope = c.attention.rope;
  file.read("rope_theta", rope.base, false);
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!file.has(key)) continue;
    read_rope(file.object(key), c.context, rope);
    break;
  }
  check_data(file.number("partial_rotary_factor", 1) == 1,
             "{}: \"partial_rotary_factor\" is not 1, which tril cannot compute", file.where());
  if (file.has("tril")) {
    const ConfigFile own = file.object("tril");
    own.read("dropout", c.dropout, false);
    own.read("z_loss", c.z_loss, false);
    own.read("rope_interleaved", rope.interleaved, false);
  }
  return c;
}

std::string llama_model_type(const TransformerConfig& config, std::string& reason) {
  const TransformerConfig c = config.resolved();
  const AttentionVariants& a = c.attention;
  const auto refuse = [&](bool is, std::string_view why) {
    if (is && reason.empty()) reason = why;
  };
  refuse(c.norm.kind != NormKind::kRms || c.norm_bias, "its norm is not the RMS norm without bias");
  refuse(a.positions != Positions::kRope, "its positions are not rotary");
  refuse(rope_size(a.rope, c.head_size) != c.head_size, "only some features of a head turn (rope_size)");
  refuse(a.rope.scaling == RopeScaling::kNtk, "its rotary scaling is ntk");
  refuse(!is_gated(c.activation), "its MLP is not gated");
  refuse(c.parallel_residual, "its residual branches are parallel");
  refuse(a.softcap != 0 || c.logit_softcap != 0, "it has a softcap");
  refuse(a.sinks, "it has attention sinks");
  refuse(c.scale != 0 && c.scale != 1.0f / std::sqrt(static_cast<float>(c.head_size)),
         "its scores are not scaled by 1/sqrt(head size)");
  refuse(c.lm_head_bias, "its head has a bias");
  refuse(c.projection_bias && !c.qkv_bias, "its attention has a bias on the output alone");
  const bool qkv_only = c.qkv_bias && !c.projection_bias;
  refuse((qkv_only || a.qk_norm) && c.mlp_bias, "its MLP has biases");
  refuse(qkv_only && a.qk_norm, "it has biases of query, key and value, and normalises queries and keys");
  refuse(a.window != 0 && (c.qkv_bias || c.mlp_bias || a.qk_norm),
         "it has a window beside biases or qk_norm");
  if (!reason.empty()) return "";
  return a.window != 0 ? "mistral" : a.qk_norm ? "qwen3" : qkv_only ? "qwen2" : "llama";
}

std::string llama_config_json(const TransformerConfig& config, std::string_view type, DType dtype,
                              const TokenIds& ids) {
  Json json;
  for (const auto& [name, architecture] : kClasses)
    if (name == type) json["architectures"] = {architecture};
  json["model_type"] = type;
  json["vocab_size"] = config.vocabulary;
  json["max_position_embeddings"] = config.context;
  json["hidden_size"] = config.channels;
  json["intermediate_size"] = config.mlp_hidden;
  json["num_hidden_layers"] = config.layers;
  json["num_attention_heads"] = config.heads;
  json["num_key_value_heads"] = config.kv_heads;
  json["head_dim"] = config.head_size;
  for (const auto& [name, gate] : kGates)
    if (gate == config.activation && !json.contains("hidden_act")) json["hidden_act"] = name;
  json["rms_norm_eps"] = shortest_number(config.norm.epsilon);
  const RopeConfig& rope = config.attention.rope;
  // Programs before 2025 read the first two, later ones the third.
  json["rope_theta"] = shortest_number(rope.base);
  json["rope_scaling"] = rope.scaling == RopeScaling::kNone ? Json() : rope_json(rope);
  json["rope_parameters"] = rope_json(rope);
  if (type == "llama" || type == "qwen3") json["attention_bias"] = config.qkv_bias;
  if (type == "llama") json["mlp_bias"] = config.mlp_bias;
  if (type == "mistral") json["sliding_window"] = config.attention.window;
  if (type == "qwen2" || type == "qwen3") json["use_sliding_window"] = false;
  json["attention_dropout"] = 0.0;
  json["tie_word_embeddings"] = config.tied_head;
  add_token_ids(ids, json);
  json["torch_dtype"] = torch_name(dtype);
  json["tril"] = {{"dropout", shortest_number(config.dropout)},
                  {"z_loss", shortest_number(config.z_loss)},
                  {"rope_interleaved", rope.interleaved}};
  return to_text(json, 2) + "\n";
}

}  // namespace tril
