// Every field of a TransformerConfig once, by the name that config files and reports give it.
#pragma once

#include <string_view>

#include "tril/nn/transformer.h"

namespace tril {

// Throw kUse, naming what is possible, for unknown names.
std::string_view name_of(NormKind kind);        // "layer", "rms"
std::string_view name_of(Positions positions);  // "learned", "rope", "alibi", "none"
inline std::string_view name_of(Activation activation) { return activation_name(activation); }
inline std::string_view name_of(RopeScaling scaling) { return rope_scaling_name(scaling); }
void from_name(std::string_view name, NormKind& out);
void from_name(std::string_view name, Positions& out);
inline void from_name(std::string_view name, Activation& out) { out = activation_from_name(name); }
inline void from_name(std::string_view name, RopeScaling& out) { out = rope_scaling_from_name(name); }

// visit(name, field): 64-bit sizes.
template <class Config, class Visit>
void visit_sizes(Config& c, Visit&& visit) {
  visit("vocabulary", c.vocabulary);
  visit("context", c.context);
  visit("channels", c.channels);
  visit("layers", c.layers);
  visit("heads", c.heads);
  visit("kv_heads", c.kv_heads);
  visit("head_size", c.head_size);
  visit("mlp_hidden", c.mlp_hidden);
}

// visit(name, field): bool, int64_t, float, and the four enumerations above.
template <class Config, class Visit>
void visit_architecture(Config& c, Visit&& visit) {
  visit("activation", c.activation);
  visit("qkv_bias", c.qkv_bias);
  visit("projection_bias", c.projection_bias);
  visit("mlp_bias", c.mlp_bias);
  visit("norm_bias", c.norm_bias);
  visit("tied_head", c.tied_head);
  visit("lm_head_bias", c.lm_head_bias);
  visit("norm", c.norm.kind);
  visit("norm_epsilon", c.norm.epsilon);
  visit("parallel_residual", c.parallel_residual);
  visit("positions", c.attention.positions);
  auto& rope = c.attention.rope;
  visit("rope_base", rope.base);
  visit("rope_size", rope.size);
  visit("rope_interleaved", rope.interleaved);
  visit("rope_scaling", rope.scaling);
  visit("rope_factor", rope.factor);
  visit("rope_original_context", rope.original_context);
  visit("rope_low_frequency_factor", rope.low_frequency_factor);
  visit("rope_high_frequency_factor", rope.high_frequency_factor);
  visit("rope_beta_fast", rope.beta_fast);
  visit("rope_beta_slow", rope.beta_slow);
  visit("rope_attention_factor", rope.attention_factor);
  visit("window", c.attention.window);
  visit("softcap", c.attention.softcap);
  visit("qk_norm", c.attention.qk_norm);
  visit("sinks", c.attention.sinks);
  visit("logit_softcap", c.logit_softcap);
  visit("scale", c.scale);
}

}  // namespace tril
