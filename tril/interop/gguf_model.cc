#include "tril/interop/gguf_model.h"

#include <algorithm>
#include <cmath>

#include "tril/base/printable.h"

namespace tril {
namespace {

// The fields of an architecture, "llama.context_length" and so on.
class Fields {
 public:
  explicit Fields(const GgufFile& file) : file_(file), where_(file.where()) {
    const auto name = file.text("general.architecture");
    check_data(name.has_value(), "{}: there is no field general.architecture: this file holds no model",
               where_);
    check_data(*name == "llama" || *name == "qwen2" || *name == "qwen3" || *name == "gpt2",
               "{}: general.architecture is \"{}\"; tril reads llama, qwen2, qwen3 and gpt2", where_,
               printable(*name, 60));
    architecture_ = *name;
  }

  const std::string& architecture() const { return architecture_; }
  std::string key(std::string_view name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view name) const { return file_.find(key(name)) != nullptr; }

  int64_t size(std::string_view name) const {
    const auto value = file_.integer(key(name));
    check_data(value.has_value(), "{}: the field {} is missing", where_, key(name));
    return *value;
  }
  int64_t size(std::string_view name, int64_t missing) const { return has(name) ? size(name) : missing; }
  float number(std::string_view name, float missing) const {
    return file_.number(key(name)).value_or(missing);
  }
  std::string text(std::string_view name, std::string_view missing) const {
    return file_.text(key(name)).value_or(std::string(missing));
  }
  void refuse(std::string_view name) const {
    check_data(!has(name), "{}: the field {} is set, which tril cannot compute", where_, key(name));
  }
  const std::string& where() const { return where_; }

 private:
  const GgufFile& file_;
  std::string where_, architecture_;
};

// llama.cpp keeps the scaling of Llama 3 as a divisor for each pair's frequency. The numbers that made them
// are in tril's own fields, or those of the models that were published, where the largest divisor is the
// factor.
void read_frequency_factors(const GgufFile& file, const StoredArray& array, int64_t head_size,
                            RopeConfig& rope) {
  const std::string& where = file.where();
  check_data(rope.size == 0, "{}: rope_freqs.weight for {} features of {}, which tril cannot compute", where,
             rope.size, head_size);
  check_data(head_size >= 2 && array.shape == Shape{head_size / 2},
             "{}: rope_freqs.weight: shape {} where ({}) is expected", where, array.shape, head_size / 2);
  std::vector<float> factors(static_cast<size_t>(head_size / 2));
  read_f32(array, 0, std::ssize(factors), factors.data());
  if (std::all_of(factors.begin(), factors.end(), [](float x) { return x == 1; })) return;
  const RopeConfig plain = rope;
  rope.scaling = RopeScaling::kLlama3;
  rope.factor = file.number("tril.rope_factor").value_or(*std::max_element(factors.begin(), factors.end()));
  rope.original_context = file.integer("tril.rope_original_context").value_or(8192);
  rope.low_frequency_factor = file.number("tril.rope_low_frequency_factor").value_or(1);
  rope.high_frequency_factor = file.number("tril.rope_high_frequency_factor").value_or(4);
  check_rope(rope, head_size);
  std::vector<double> before(factors.size()), after(factors.size());
  rope_frequencies(plain, head_size, before.data());
  rope_frequencies(rope, head_size, after.data());
  for (size_t i = 0; i < factors.size(); ++i)
    check_data(std::abs(before[i] / after[i] - double{factors[i]}) <= 1e-4 * double{factors[i]},
               "{}: rope_freqs.weight divides frequency {} by {}, which is not Llama 3's scaling by {}: tril "
               "cannot compute it",
               where, i, factors[i], rope.factor);
}

void read_rope(const GgufFile& file, const Fields& fields, const ArraysByName& by_name,
               TransformerConfig& c) {
  RopeConfig& rope = c.attention.rope;
  rope.base = fields.number("rope.freq_base", 10000);
  rope.interleaved = fields.architecture() == "llama";
  const int64_t head_size = c.head_size != 0 ? c.head_size : c.heads > 0 ? c.channels / c.heads : 0;
  const int64_t turning = fields.size("rope.dimension_count", head_size);
  if (turning != head_size) rope.size = turning;
  const std::string scaling =
      fields.text("rope.scaling.type", fields.has("rope.scale_linear") ? "linear" : "none");
  check_data(scaling == "none" || scaling == "linear",
             "{}: rope.scaling.type is \"{}\"; tril reads none and linear", fields.where(),
             printable(scaling, 60));
  if (scaling == "linear") {
    rope.scaling = RopeScaling::kLinear;
    rope.factor = fields.number("rope.scaling.factor", fields.number("rope.scale_linear", 1));
    if (rope.factor == 1) rope.scaling = RopeScaling::kNone;
  }
  const auto factors = by_name.find("rope_freqs.weight");
  if (factors == by_name.end()) return;
  check_data(rope.scaling == RopeScaling::kNone, "{}: rope_freqs.weight beside linear scaling", file.where());
  read_frequency_factors(file, *factors->second, head_size, rope);
}

TransformerConfig read_config(const GgufFile& file, const Fields& fields, const StoredArrays& arrays) {
  const ArraysByName by_name = arrays_by_name(arrays);
  for (const char* name : {"attention.scale", "logit_scale", "residual_scale", "embedding_scale",
                           "attention.clamp_kqv", "attn_logit_softcapping", "final_logit_softcapping"})
    fields.refuse(name);
  check_data(fields.size("expert_count", 0) == 0, "{}: a mixture of {} experts, which tril cannot compute",
             fields.where(), fields.size("expert_count", 0));
  const bool gpt2 = fields.architecture() == "gpt2";
  TransformerConfig c;
  c.set_architecture(gpt2 ? "gpt" : "llama");
  const StoredArray& table = require_array(arrays, by_name, "token_embd.weight");
  check_data(table.shape.rank() == 2, "{}: tensor token_embd.weight has {} dimensions, 2 are expected",
             arrays.where, table.shape.rank());
  c.vocabulary = table.shape[0];
  c.context = fields.size("context_length");
  c.channels = fields.size("embedding_length");
  c.layers = fields.size("block_count");
  c.heads = fields.size("attention.head_count");
  c.mlp_hidden = fields.size("feed_forward_length");
  c.tied_head = !by_name.contains("output.weight");
  const char* const epsilon = gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon";
  check_data(fields.has(epsilon), "{}: the field {} is missing", fields.where(), fields.key(epsilon));
  c.norm.epsilon = fields.number(epsilon, 0);
  if (gpt2) return c;
  c.kv_heads = fields.size("attention.head_count_kv", c.heads);
  c.head_size = fields.size("attention.key_length", 0);
  check_data(fields.size("attention.value_length", c.head_size) == c.head_size,
             "{}: keys of {} features and values of {}, which tril cannot compute", fields.where(),
             c.head_size, fields.size("attention.value_length", c.head_size));
  c.qkv_bias = by_name.contains("blk.0.attn_q.bias");
  c.projection_bias = by_name.contains("blk.0.attn_output.bias");
  c.mlp_bias = by_name.contains("blk.0.ffn_up.bias");
  c.attention.qk_norm = by_name.contains("blk.0.attn_q_norm.weight");
  read_rope(file, fields, by_name, c);
  return c;
}

void read_text(const GgufFile& file, ModelText& text) {
  text.chat_template = file.text("tokenizer.chat_template").value_or("");
  for (const char* key : {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id"}) {
    const auto id = file.integer(key);
    const bool known = !id || *id < 0 || *id > INT32_MAX ||
                       std::find(text.stop_ids.begin(), text.stop_ids.end(), *id) != text.stop_ids.end();
    if (!known) text.stop_ids.push_back(static_cast<int32_t>(*id));
  }
}

}  // namespace

StoredModel open_gguf_model(const Path& path) {
  const auto file = std::make_shared<const GgufFile>(path);
  StoredModel out;
  const Fields fields(*file);
  check_data(!file->integer("split.count") || file->integer("split.count") <= 1,
             "{}: one of several parts; join them with llama.cpp's gguf-split --merge first", file->where());
  out.arrays = stored_arrays(file);
  try {
    out.config = read_config(*file, fields, out.arrays).resolved();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kData) throw;
    fail(ErrorKind::kData, "{}: {}", file->where(), error.what());
  }
  out.layout = gguf_layout(out.config, fields.architecture());
  if (file->find("tokenizer.ggml.model") != nullptr)
    out.tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(path));
  read_text(*file, out.text);
  return out;
}

}  // namespace tril
