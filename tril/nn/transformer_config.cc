#include <array>

#include "tril/nn/transformer.h"

namespace tril {
namespace {

// The largest sizes that are sizes and not slips of the keyboard; real limits are the machine's memory.
constexpr int64_t kLargest = int64_t{1} << 31;
constexpr int64_t kMostLayers = 10000;

void check_size(std::string_view name, int64_t value, int64_t largest) {
  check_use(value >= 1 && value <= largest, "{} is {}; it must be between 1 and {}", name, value, largest);
}

// "2 or 4": the divisors of `channels` next to `heads`.
std::string near_divisors(int64_t channels, int64_t heads) {
  int64_t below = heads, above = heads;
  while (below > 1 && channels % below != 0) --below;
  while (above < channels && channels % above != 0) ++above;
  return below == above ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

}  // namespace

void TransformerConfig::set_architecture(std::string_view name) {
  check_use(name == "gpt" || name == "classic", "arch '{}' is not known; use gpt or classic", name);
  const bool gpt = name == "gpt";
  activation = gpt ? Activation::kGeluTanh : Activation::kRelu;
  qkv_bias = gpt;
  projection_bias = mlp_bias = norm_bias = true;
  tied_head = gpt;
  lm_head_bias = !gpt;
  scale = 0;
}

std::string TransformerConfig::architecture() const {
  for (const char* const name : {"gpt", "classic"}) {
    TransformerConfig other = *this;
    other.set_architecture(name);
    if (other.activation == activation && other.qkv_bias == qkv_bias &&
        other.projection_bias == projection_bias && other.mlp_bias == mlp_bias &&
        other.norm_bias == norm_bias && other.tied_head == tied_head && other.lm_head_bias == lm_head_bias &&
        other.scale == scale) {
      return name;
    }
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
  if (c.mlp_hidden == 0) c.mlp_hidden = checked_multiply(4, c.channels);
  check_size("mlp-hidden", c.mlp_hidden, 4 * kLargest);
  check_use(c.dropout >= 0 && c.dropout < 1, "dropout is {}; it must be in [0, 1)", c.dropout);
  check_use(c.scale >= 0 && c.scale < 1e30f, "scale is {}; it must be positive, or 0 for 1/sqrt(head size)",
            c.scale);
  check_use(!(c.tied_head && c.lm_head_bias),
            "a tied language-model head has no bias; untie it or drop the bias");
  c.parameter_count();  // throws if the sum does not fit
  return c;
}

int64_t TransformerConfig::parameter_count() const {
  const int64_t c = channels, d = head_size != 0 ? head_size : c / heads,
                k = kv_heads != 0 ? kv_heads : heads;
  const int64_t f = mlp_hidden != 0 ? mlp_hidden : checked_multiply(4, c);
  const auto linear = [](int64_t in, int64_t out, bool bias) {
    return checked_add(checked_multiply(in, out), bias ? out : 0);
  };
  const int64_t norm = norm_bias ? 2 * c : c;
  const int64_t qkv = linear(c, checked_multiply(heads + 2 * k, d), qkv_bias);
  const int64_t projection = linear(checked_multiply(heads, d), c, projection_bias);
  const int64_t mlp = checked_add(linear(c, f, mlp_bias), linear(f, c, mlp_bias));
  const int64_t block = checked_add(checked_add(qkv, projection), checked_add(mlp, 2 * norm));
  const int64_t tables = checked_multiply(checked_add(vocabulary, context), c);
  const int64_t head =
      checked_add(tied_head ? 0 : checked_multiply(vocabulary, c), lm_head_bias ? vocabulary : 0);
  return checked_add(checked_add(checked_multiply(layers, block), tables), checked_add(norm, head));
}

int64_t TransformerConfig::matrix_parameters() const {
  const TransformerConfig r = resolved();
  const int64_t qkv = r.channels * (r.heads + 2 * r.kv_heads) * r.head_size;
  const int64_t projection = r.heads * r.head_size * r.channels;
  return r.layers * (qkv + projection + 2 * r.channels * r.mlp_hidden) + r.vocabulary * r.channels;
}

double TransformerConfig::training_flops(int64_t batch, int64_t time) const {
  const TransformerConfig r = resolved();
  const double rows = static_cast<double>(batch) * static_cast<double>(time);
  const double attention_forward = 4.0 * static_cast<double>(batch * r.heads * r.head_size) *
                                   static_cast<double>(time) * static_cast<double>(time + 1) / 2;
  return 6.0 * rows * static_cast<double>(matrix_parameters()) +
         3.5 * static_cast<double>(r.layers) * attention_forward;
}

}  // namespace tril
