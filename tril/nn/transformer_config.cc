#include <algorithm>
#include <utility>

#include "tril/nn/transformer_fields.h"

namespace tril {
namespace {

// The largest sizes that are sizes and not slips of the keyboard; real limits are the machine's memory.
constexpr int64_t kLargest = int64_t{1} << 31;
constexpr int64_t kMostLayers = 10000;

void check_size(std::string_view name, int64_t value, int64_t largest) {
  check_use(value >= 1 && value <= largest, "{} is {}; it must be between 1 and {}", name, value, largest);
}

constexpr const char* kArchitectures[] = {"gpt", "llama", "classic", "custom"};

constexpr std::pair<Positions, std::string_view> kPositions[] = {{Positions::kLearned, "learned"},
                                                                 {Positions::kRope, "rope"},
                                                                 {Positions::kAlibi, "alibi"},
                                                                 {Positions::kNone, "none"}};

// "2 or 4": the divisors of `channels` next to `heads`.
std::string near_divisors(int64_t channels, int64_t heads) {
  constexpr int64_t kFarthest = 100000;  // tried: the numbers may come from a damaged file
  int64_t below = heads, above = heads;
  while (below > 1 && heads - below < kFarthest && channels % below != 0) --below;
  while (above < channels && above - heads < kFarthest && channels % above != 0) ++above;
  if (channels % below != 0) below = 1;
  return below == above || channels % above != 0 ? fmt::format("{}", below)
                                                 : fmt::format("{} or {}", below, above);
}

}  // namespace

std::string_view name_of(NormKind kind) { return kind == NormKind::kLayer ? "layer" : "rms"; }

std::string_view name_of(Positions positions) {
  for (const auto& [value, name] : kPositions)
    if (value == positions) return name;
  return "";
}

void from_name(std::string_view name, NormKind& out) {
  check_use(name == "layer" || name == "rms", "norm '{}' is not known; use layer or rms", name);
  out = name == "layer" ? NormKind::kLayer : NormKind::kRms;
}

void from_name(std::string_view name, Positions& out) {
  for (const auto& [value, known] : kPositions) {
    if (name == known) {
      out = value;
      return;
    }
  }
  fail(ErrorKind::kUse, "positions '{}' are not known; use learned, rope, alibi or none", name);
}

void TransformerConfig::set_architecture(std::string_view name) {
  check_use(std::find(std::begin(kArchitectures), std::end(kArchitectures), name) != std::end(kArchitectures),
            "arch '{}' is not known; use gpt, llama, classic or custom", name);
  TransformerConfig c;  // as it stands, GPT-2's
  c.vocabulary = vocabulary, c.context = context, c.channels = channels, c.layers = layers;
  c.heads = heads, c.kv_heads = kv_heads, c.head_size = head_size, c.mlp_hidden = mlp_hidden;
  c.dropout = dropout, c.z_loss = z_loss, c.label_smoothing = label_smoothing;
  if (name == "classic") {
    c.activation = Activation::kRelu;
    c.qkv_bias = c.tied_head = false;
    c.lm_head_bias = true;
  } else if (name == "llama") {
    c.activation = Activation::kSwiGlu;
    c.qkv_bias = c.projection_bias = c.mlp_bias = c.norm_bias = false;
    c.norm.kind = NormKind::kRms;
    c.attention.positions = Positions::kRope;
  }
  *this = c;
}

std::string TransformerConfig::architecture() const {
  for (const char* const name : kArchitectures) {
    TransformerConfig other = *this;
    other.set_architecture(name);
    if (other == *this) return name;
  }
  return "custom";
}

TransformerConfig TransformerConfig::resolved() const {
  TransformerConfig c = *this;
  check_size("vocabulary", c.vocabulary, kLargest);
  check_size("context", c.context, kLargest);
  check_size("channels", c.channels, kLargest);
  check_size("layers", c.layers, kMostLayers);
  check_size("heads", c.heads, kLargest);
  if (c.kv_heads == 0) c.kv_heads = c.heads;
  check_size("kv-heads", c.kv_heads, kLargest);
  check_use(c.heads % c.kv_heads == 0, "{} heads cannot share {} key/value heads evenly; use {}", c.heads,
            c.kv_heads, near_divisors(c.heads, c.kv_heads));
  if (c.head_size == 0) {
    check_use(c.channels % c.heads == 0,
              "{} channels cannot be divided among {} heads; use {} heads, or {} or {} channels, or give "
              "--head-size",
              c.channels, c.heads, near_divisors(c.channels, c.heads), c.channels / c.heads * c.heads,
              (c.channels / c.heads + 1) * c.heads);
    c.head_size = c.channels / c.heads;
  }
  check_use(c.head_size >= 1 && c.head_size <= 256,
            "head size is {} ({} channels, {} heads); it must be between 1 and 256: use more heads or give "
            "--head-size",
            c.head_size, c.channels, c.heads);
  if (c.mlp_hidden == 0) c.mlp_hidden = default_mlp_hidden(c.channels, c.activation);
  check_size("mlp-hidden", c.mlp_hidden, 4 * kLargest);
  check_use(c.dropout >= 0 && c.dropout < 1, "dropout is {}; it must be in [0, 1)", c.dropout);
  check_use(c.scale >= 0 && c.scale < 1e30f, "scale is {}; it must be positive, or 0 for 1/sqrt(head size)",
            c.scale);
  const AttentionVariants& a = c.attention;
  if (a.positions == Positions::kRope) check_rope(a.rope, c.head_size);
  check_use(a.window >= 0 && a.window <= kLargest,
            "window is {}; it must be a number of tokens up to {}, or 0 for all", a.window, kLargest);
  for (const auto& [name, value] : {std::pair("softcap", a.softcap), {"logit-softcap", c.logit_softcap}}) {
    check_use(value == 0 || (value >= 1e-3f && value <= 1e9f),
              "{} is {}; it must lie between 0.001 and 1e9, such as 30, or be 0 for none", name, value);
  }
  check_use(c.z_loss >= 0 && c.z_loss <= 1, "z-loss is {}; it must lie between 0 and 1, such as 1e-4",
            c.z_loss);
  check_use(c.label_smoothing >= 0 && c.label_smoothing < 1,
            "label-smoothing is {}; it must be in [0, 1), such as 0.1", c.label_smoothing);
  check_use(c.norm.epsilon >= 1e-12f && c.norm.epsilon <= 0.1f,
            "norm-epsilon is {}; it must lie between 1e-12 and 0.1, such as 1e-5", c.norm.epsilon);
  check_use(!(c.tied_head && c.lm_head_bias),
            "a tied language-model head has no bias; untie it or drop the bias");
  c.parameter_count();  // throws if the sum does not fit
  return c;
}

int64_t TransformerConfig::parameter_count() const {
  const int64_t c = channels, d = head_size != 0 ? head_size : c / heads,
                k = kv_heads != 0 ? kv_heads : heads;
  const int64_t f = mlp_hidden != 0 ? mlp_hidden : default_mlp_hidden(c, activation);
  const auto linear = [](int64_t in, int64_t out, bool bias) {
    return checked_add(checked_multiply(in, out), bias ? out : 0);
  };
  const int64_t norms = norm_bias ? 2 * c : c;
  const int64_t qkv = linear(c, checked_multiply(heads + 2 * k, d), qkv_bias);
  const int64_t projection = linear(checked_multiply(heads, d), c, projection_bias);
  const int64_t hidden = checked_multiply(is_gated(activation) ? 2 : 1, linear(c, f, mlp_bias));
  const int64_t mlp = checked_add(hidden, linear(f, c, mlp_bias));
  const int64_t small = (attention.qk_norm ? 2 * d : 0) + (attention.sinks ? heads : 0) + 2 * norms;
  const int64_t block = checked_add(checked_add(qkv, projection), checked_add(mlp, small));
  const bool learned = attention.positions == Positions::kLearned;
  const int64_t tables = checked_multiply(checked_add(vocabulary, learned ? context : 0), c);
  const int64_t head =
      checked_add(tied_head ? 0 : checked_multiply(vocabulary, c), lm_head_bias ? vocabulary : 0);
  return checked_add(checked_add(checked_multiply(layers, block), tables), checked_add(norms, head));
}

int64_t TransformerConfig::matrix_parameters() const {
  const TransformerConfig r = resolved();
  const int64_t qkv = r.channels * (r.heads + 2 * r.kv_heads) * r.head_size;
  const int64_t projection = r.heads * r.head_size * r.channels;
  return r.layers * (qkv + projection + (is_gated(activation) ? 3 : 2) * r.channels * r.mlp_hidden) +
         r.vocabulary * r.channels;
}

namespace {

// Of one layer, forward.
double attention_flops(const TransformerConfig& resolved, int64_t batch, int64_t time) {
  return 4.0 * static_cast<double>(batch * resolved.heads * resolved.head_size) *
         visible_pairs(time, resolved.attention.window);
}

}  // namespace

double TransformerConfig::training_flops(int64_t batch, int64_t time) const {
  const double rows = static_cast<double>(batch) * static_cast<double>(time);
  return 6.0 * rows * static_cast<double>(matrix_parameters()) +
         3.5 * static_cast<double>(layers) * attention_flops(resolved(), batch, time);
}

double TransformerConfig::recomputed_flops(int64_t batch, int64_t time, Checkpointing checkpointing) const {
  if (checkpointing == Checkpointing::kNone) return 0;
  const TransformerConfig r = resolved();
  const double rows = static_cast<double>(batch) * static_cast<double>(time);
  const auto product = [&](int64_t in, int64_t out) {
    return 2.0 * rows * static_cast<double>(in) * static_cast<double>(out);
  };
  // The MLP's hidden layer (and gate) of every block, and the attention half of all blocks but the last.
  const double hidden =
      static_cast<double>(r.layers) * (is_gated(activation) ? 2 : 1) * product(r.channels, r.mlp_hidden);
  if (checkpointing == Checkpointing::kSelective) return hidden;
  const double half = product(r.channels, (r.heads + 2 * r.kv_heads) * r.head_size) +
                      product(r.heads * r.head_size, r.channels) + attention_flops(r, batch, time);
  return hidden + static_cast<double>(r.layers - 1) * half;
}

}  // namespace tril
