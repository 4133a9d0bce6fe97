#include "tril/nn/transformer_fields.h"
#include "tril/train/options.h"

namespace tril {

void set_model_options(const TransformerConfig& config, TrainOptions& o) {
  const TransformerConfig c = config.resolved();
  const auto yes_or_no = [](bool value) { return std::string(value ? "true" : "false"); };
  o.arch = c.architecture();
  o.layers = c.layers, o.heads = c.heads, o.kv_heads = c.kv_heads, o.channels = c.channels;
  o.head_size = c.head_size, o.mlp_hidden = c.mlp_hidden, o.context = c.context;
  o.activation = name_of(c.activation);
  o.norm = name_of(c.norm.kind);
  o.norm_epsilon = c.norm.epsilon;
  o.qkv_bias = yes_or_no(c.qkv_bias);
  o.projection_bias = yes_or_no(c.projection_bias);
  o.mlp_bias = yes_or_no(c.mlp_bias);
  o.norm_bias = yes_or_no(c.norm_bias);
  o.lm_head_bias = yes_or_no(c.lm_head_bias);
  o.tied_head = yes_or_no(c.tied_head);
  o.parallel_residual = c.parallel_residual;
  o.scale = c.scale;
  o.logit_softcap = c.logit_softcap;
  const AttentionVariants& attention = c.attention;
  o.positions = name_of(attention.positions);
  o.window = attention.window;
  o.softcap = attention.softcap;
  o.qk_norm = attention.qk_norm;
  o.sinks = attention.sinks;
  if (attention.positions != Positions::kRope) return;
  const RopeConfig& rope = attention.rope;
  o.rope_base = rope.base;
  o.rope_size = rope.size;
  o.rope_interleaved = rope.interleaved;
  o.rope_scaling = name_of(rope.scaling);
  o.rope_factor = rope.factor;
  o.rope_original_context = rope.original_context;
}

}  // namespace tril
