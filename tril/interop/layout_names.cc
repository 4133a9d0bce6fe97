// The names of each layout of model folders, and of the tutorials.
#include "tril/interop/layout_rules.h"

namespace tril {
namespace {

constexpr LayoutRule kGpt2Block[] = {{"ln1.", "ln_1."},
                                     {"ln2.", "ln_2."},
                                     {"attention.qkv.", "attn.c_attn.", true},
                                     {"attention.projection.", "attn.c_proj.", true},
                                     {"mlp.hidden.", "mlp.c_fc.", true},
                                     {"mlp.projection.", "mlp.c_proj.", true}};
constexpr LayoutRule kGpt2Around[] = {{"token_embedding.", "wte."},
                                      {"position_embedding.", "wpe."},
                                      {"ln_final.", "ln_f."},
                                      {"lm_head.weight", "lm_head.weight"}};

constexpr LayoutRule kLlamaBlock[] = {{"ln1.", "input_layernorm."},
                                      {"ln2.", "post_attention_layernorm."},
                                      {"attention.query_norm.", "self_attn.q_norm."},
                                      {"attention.key_norm.", "self_attn.k_norm."},
                                      {"attention.projection.", "self_attn.o_proj."},
                                      {"mlp.gate.", "mlp.gate_proj."},
                                      {"mlp.hidden.", "mlp.up_proj."},
                                      {"mlp.projection.", "mlp.down_proj."}};
constexpr LayoutRule kLlamaAround[] = {
    {"token_embedding.", "embed_tokens."}, {"ln_final.", "norm."}, {"lm_head.weight", "lm_head.weight"}};

constexpr LayoutRule kTutorialBlock[] = {{"ln1.", "ln1."},
                                         {"ln2.", "ln2."},
                                         {"attention.projection.", "attn.proj."},
                                         {"mlp.hidden.", "mlp.hidden."},
                                         {"mlp.projection.", "mlp.proj."}};
constexpr LayoutRule kTutorialAround[] = {{"token_embedding.", "token_embed."},
                                          {"position_embedding.", "position_embed."},
                                          {"ln_final.", "layer_norm."},
                                          {"lm_head.", "lm_head."}};

}  // namespace

Layout tril_layout(const TransformerConfig& config) {
  return {.name = "tril", .whole = config, .parts = [](const ParameterInfo& info) {
            return std::vector<ArrayPart>{{.array = info.name, .rows = info.shape[0]}};
          }};
}

Layout gpt2_layout(const TransformerConfig& config) {
  Layout out{.name = "gpt2", .prefix = "transformer.", .whole = config};
  // GPT-2 has every bias: a model without some is one whose biases are zero.
  out.whole.qkv_bias = out.whole.projection_bias = out.whole.mlp_bias = out.whole.norm_bias = true;
  out.parts = [](const ParameterInfo& info) {
    return std::vector<ArrayPart>{renamed(info, "gpt2", "h", kGpt2Block, kGpt2Around)};
  };
  // Causal masks that old files carry.
  out.ignores = [](std::string_view name) {
    return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
  };
  return out;
}

Layout llama_layout(const TransformerConfig& config, bool interleaved) {
  Layout out{.name = "llama", .prefix = "model.", .whole = config};
  const QueryKeyRows rows{.heads = config.heads,
                          .kv_heads = config.kv_heads,
                          .head_size = config.head_size,
                          .order = order_there(config, interleaved)};
  out.parts = [rows](const ParameterInfo& info) {
    const BlockName name = block_name(info.name);
    if (!name.rest.starts_with(kQkvPrefix)) {
      ArrayPart part = renamed(info, "llama", "layers", kLlamaBlock, kLlamaAround);
      if (is_query_key_norm(name)) part.order = rows.order, part.heads = 1;
      return std::vector<ArrayPart>{part};
    }
    return split_query_key_value(rows, [&](char part) {
      return fmt::format("layers.{}.self_attn.{}_proj.{}", name.layer, part,
                         name.rest.substr(kQkvPrefix.size()));
    });
  };
  out.ignores = [](std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); };
  return out;
}

Layout tutorial_layout(const TransformerConfig& config) {
  Layout out{.name = "tutorial", .whole = config};
  const int64_t heads = config.heads, size = config.head_size;
  out.parts = [heads, size](const ParameterInfo& info) {
    const BlockName name = block_name(info.name);
    if (!name.rest.starts_with(kQkvPrefix)) {
      ArrayPart part = renamed(info, "tutorial", "attn_blocks", kTutorialBlock, kTutorialAround);
      if (name.rest.starts_with("attention.projection.")) part.absent = ArrayPart::Absent::kIdentity;
      return std::vector<ArrayPart>{part};
    }
    std::vector<ArrayPart> parts;
    for (const char* part : {"query", "key", "value"})
      for (int64_t h = 0; h < heads; ++h)
        parts.push_back({.array = fmt::format("attn_blocks.{}.attn.heads.{}.{}.weight", name.layer, h, part),
                         .rows = size});
    return parts;
  };
  out.ignores = [](std::string_view name) { return name == "pos_idxs" || name.ends_with(".tril"); };
  return out;
}

}  // namespace tril
