#include <cmath>

#include "tril/interop/config_json.h"
#include "tril/interop/gguf_model.h"
#include "tril/interop/layout_rules.h"

namespace tril {
namespace {

constexpr LayoutRule kBlock[] = {{"ln1.", "attn_norm."},
                                 {"ln2.", "ffn_norm."},
                                 {"attention.qkv.", "attn_qkv."},
                                 {"attention.query_norm.", "attn_q_norm."},
                                 {"attention.key_norm.", "attn_k_norm."},
                                 {"attention.projection.", "attn_output."},
                                 {"mlp.gate.", "ffn_gate."},
                                 {"mlp.hidden.", "ffn_up."},
                                 {"mlp.projection.", "ffn_down."}};
constexpr LayoutRule kAround[] = {{"token_embedding.", "token_embd."},
                                  {"position_embedding.", "position_embd."},
                                  {"ln_final.", "output_norm."},
                                  {"lm_head.weight", "output.weight"}};

constexpr const char* kInstead = "write a model folder instead (--to hf or tril)";

}  // namespace

std::string gguf_architecture(const TransformerConfig& config, std::string& reason) {
  const TransformerConfig c = config.resolved();
  std::string why;
  if (expressible_as_gpt2(c, why)) {
    if (c.activation == Activation::kGeluTanh) return "gpt2";
    reason = fmt::format("llama.cpp computes GPT-2 with the tanh GELU, and this model has {}; {}",
                         activation_name(c.activation), kInstead);
    return "";
  }
  const bool rotary = c.attention.positions == Positions::kRope;
  if (rotary) why.clear();
  const std::string type = rotary ? llama_model_type(c, why) : "";
  if (type == "mistral") why = "it has a window";
  if (c.activation == Activation::kGeGlu) why = "its MLP is gated by GELU";
  if (type == "qwen3" && c.qkv_bias) why = "it has biases beside normalised queries and keys";
  const RopeScaling scaling = c.attention.rope.scaling;
  if (scaling == RopeScaling::kYarn) why = "its rotary scaling is yarn";
  if (why.empty() && !type.empty()) return type;
  reason = fmt::format("llama.cpp has no model that computes this one: {}; {}", why, kInstead);
  return "";
}

Layout gguf_layout(const TransformerConfig& config, std::string_view architecture) {
  Layout out{.name = "gguf", .whole = config};
  const bool gpt2 = architecture == "gpt2";
  if (gpt2) out.whole = gpt2_layout(config).whole;
  const QueryKeyRows rows{.heads = config.heads,
                          .kv_heads = config.kv_heads,
                          .head_size = config.head_size,
                          .order = order_there(config, architecture == "llama")};
  out.parts = [gpt2, rows](const ParameterInfo& info) {
    const BlockName name = block_name(info.name);
    if (gpt2 || !name.rest.starts_with(kQkvPrefix)) {
      ArrayPart part = renamed(info, "gguf", "blk", kBlock, kAround);
      if (is_query_key_norm(name)) part.order = rows.order, part.heads = 1;
      return std::vector<ArrayPart>{part};
    }
    return split_query_key_value(rows, [&](char part) {
      return fmt::format("blk.{}.attn_{}.{}", name.layer, part, name.rest.substr(kQkvPrefix.size()));
    });
  };
  // Factors of the rotary frequencies, which the reader of the header has compared with the configuration.
  out.ignores = [](std::string_view name) { return name == "rope_freqs.weight"; };
  return out;
}

}  // namespace tril
