// The names of each layout.
#include <array>
#include <span>

#include "tril/interop/layout.h"

namespace tril {
namespace {

struct Rule {
  std::string_view ours, theirs;  // beginnings of names
  bool transposed = false;
};

// "blocks.3.ln1.weight" -> 3 and "ln1.weight"; false for what belongs to no block.
bool split_block(std::string_view parameter, std::string_view& layer, std::string_view& rest) {
  constexpr std::string_view kBlocks = "blocks.";
  if (!parameter.starts_with(kBlocks)) return false;
  const size_t dot = parameter.find('.', kBlocks.size());
  layer = parameter.substr(kBlocks.size(), dot - kBlocks.size());
  rest = parameter.substr(dot + 1);
  return true;
}

const Rule* find_rule(std::span<const Rule> rules, std::string_view name) {
  for (const Rule& rule : rules)
    if (name.starts_with(rule.ours)) return &rule;
  return nullptr;
}

// The name by rules for the parts of a block, and for what is around the blocks.
ArrayPart renamed(const ParameterInfo& info, std::string_view layout, std::string_view block,
                  std::span<const Rule> in_block, std::span<const Rule> around) {
  std::string_view layer, rest = info.name;
  const bool inside = split_block(info.name, layer, rest);
  const Rule* const rule = find_rule(inside ? in_block : around, rest);
  check_use(rule != nullptr, "{} layout: there is no place for the parameter {}", layout, info.name);
  const std::string name = fmt::format("{}{}", rule->theirs, rest.substr(rule->ours.size()));
  return {.array = inside ? fmt::format("{}.{}.{}", block, layer, name) : name,
          .rows = info.shape[0],
          .transposed = rule->transposed && info.shape.rank() == 2};
}

constexpr Rule kGpt2Block[] = {{"ln1.", "ln_1."},
                               {"ln2.", "ln_2."},
                               {"attention.qkv.", "attn.c_attn.", true},
                               {"attention.projection.", "attn.c_proj.", true},
                               {"mlp.hidden.", "mlp.c_fc.", true},
                               {"mlp.projection.", "mlp.c_proj.", true}};
constexpr Rule kGpt2Around[] = {{"token_embedding.", "wte."},
                                {"position_embedding.", "wpe."},
                                {"ln_final.", "ln_f."},
                                {"lm_head.weight", "lm_head.weight"}};

constexpr Rule kLlamaBlock[] = {{"ln1.", "input_layernorm."},
                                {"ln2.", "post_attention_layernorm."},
                                {"attention.query_norm.", "self_attn.q_norm."},
                                {"attention.key_norm.", "self_attn.k_norm."},
                                {"attention.projection.", "self_attn.o_proj."},
                                {"mlp.gate.", "mlp.gate_proj."},
                                {"mlp.hidden.", "mlp.up_proj."},
                                {"mlp.projection.", "mlp.down_proj."}};
constexpr Rule kLlamaAround[] = {
    {"token_embedding.", "embed_tokens."}, {"ln_final.", "norm."}, {"lm_head.weight", "lm_head.weight"}};

constexpr Rule kTutorialBlock[] = {{"ln1.", "ln1."},
                                   {"ln2.", "ln2."},
                                   {"attention.projection.", "attn.proj."},
                                   {"mlp.hidden.", "mlp.hidden."},
                                   {"mlp.projection.", "mlp.proj."}};
constexpr Rule kTutorialAround[] = {{"token_embedding.", "token_embed."},
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

HeadOrder order_there(const TransformerConfig& config, bool interleaved) {
  if (config.attention.positions != Positions::kRope || config.attention.rope.interleaved == interleaved)
    return HeadOrder::kSame;
  return interleaved ? HeadOrder::kInterleavedThere : HeadOrder::kHalvesThere;
}

Layout llama_layout(const TransformerConfig& config, bool interleaved) {
  Layout out{.name = "llama", .prefix = "model.", .whole = config};
  const HeadOrder order = order_there(config, interleaved);
  const int64_t heads = config.heads, kv_heads = config.kv_heads;
  out.parts = [order, heads, kv_heads](const ParameterInfo& info) {
    constexpr std::string_view kQkv = "attention.qkv.";
    std::string_view layer, rest;
    const bool inside = split_block(info.name, layer, rest);
    if (!inside || !rest.starts_with(kQkv)) {
      ArrayPart part = renamed(info, "llama", "layers", kLlamaBlock, kLlamaAround);
      if (rest.starts_with("attention.query_norm") || rest.starts_with("attention.key_norm"))
        part.order = order, part.heads = 1;
      return std::vector<ArrayPart>{part};
    }
    std::vector<ArrayPart> parts;
    for (const ParameterPart& ours : info.parts) {
      ArrayPart& part = parts.emplace_back();
      part.array =
          fmt::format("layers.{}.self_attn.{}_proj.{}", layer, ours.name[0], rest.substr(kQkv.size()));
      part.rows = ours.row_end - ours.row_begin;
      if (ours.name != "value") part.order = order, part.heads = ours.name == "query" ? heads : kv_heads;
    }
    return parts;
  };
  out.ignores = [](std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); };
  return out;
}

Layout tutorial_layout(const TransformerConfig& config) {
  Layout out{.name = "tutorial", .whole = config};
  const int64_t heads = config.heads, size = config.head_size;
  out.parts = [heads, size](const ParameterInfo& info) {
    std::string_view layer, rest;
    const bool inside = split_block(info.name, layer, rest);
    if (!inside || !rest.starts_with("attention.qkv.")) {
      ArrayPart part = renamed(info, "tutorial", "attn_blocks", kTutorialBlock, kTutorialAround);
      if (rest.starts_with("attention.projection.")) part.absent = ArrayPart::Absent::kIdentity;
      return std::vector<ArrayPart>{part};
    }
    std::vector<ArrayPart> parts;
    for (const ParameterPart& ours : info.parts)
      for (int64_t h = 0; h < heads; ++h)
        parts.push_back({.array = fmt::format("attn_blocks.{}.attn.heads.{}.{}.weight", layer, h, ours.name),
                         .rows = size});
    return parts;
  };
  out.ignores = [](std::string_view name) { return name == "pos_idxs" || name.ends_with(".tril"); };
  return out;
}

}  // namespace tril
