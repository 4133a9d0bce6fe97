#include <algorithm>

#include "tril/base/printable.h"
#include "tril/interop/gguf_model.h"
#include "tril/interop/model_text.h"

namespace tril {
namespace {

// general.file_type: llama.cpp's number of what most tensors are.
uint32_t file_type(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 0;
    case DType::kF16:
      return 1;
    case DType::kQ4_0:
      return 2;
    case DType::kQ8_0:
      return 7;
    case DType::kBF16:
      return 32;
    default:
      fail(ErrorKind::kUse, "tril writes GGUF as f32, f16, bf16, q8_0 and q4_0, not {}",
           dtype_info(dtype).name);
  }
}

uint32_t field(int64_t value) {
  check_use(value >= 0 && value <= UINT32_MAX, "GGUF has 32 bits for {}", value);
  return static_cast<uint32_t>(value);
}

void add_sizes(const TransformerConfig& c, const std::string& architecture, GgufHeader& header) {
  const auto key = [&](std::string_view name) { return fmt::format("{}.{}", architecture, name); };
  header.add(key("vocab_size"), field(c.vocabulary));
  header.add(key("context_length"), field(c.context));
  header.add(key("embedding_length"), field(c.channels));
  header.add(key("block_count"), field(c.layers));
  header.add(key("feed_forward_length"), field(c.mlp_hidden));
  header.add(key("attention.head_count"), field(c.heads));
  if (architecture == "gpt2") {
    header.add(key("attention.layer_norm_epsilon"), c.norm.epsilon);
    return;
  }
  header.add(key("attention.head_count_kv"), field(c.kv_heads));
  header.add(key("attention.key_length"), field(c.head_size));
  header.add(key("attention.value_length"), field(c.head_size));
  header.add(key("attention.layer_norm_rms_epsilon"), c.norm.epsilon);
  const RopeConfig& rope = c.attention.rope;
  header.add(key("rope.dimension_count"), field(c.head_size));
  header.add(key("rope.freq_base"), rope.base);
  if (rope.scaling == RopeScaling::kLinear) {
    header.add(key("rope.scaling.type"), std::string_view("linear"));
    header.add(key("rope.scaling.factor"), rope.factor);
  } else if (rope.scaling ==
             RopeScaling::kLlama3) {  // llama.cpp reads what frequency_factors() makes of them
    header.add("tril.rope_factor", rope.factor);
    header.add("tril.rope_original_context", field(rope.original_context));
    header.add("tril.rope_low_frequency_factor", rope.low_frequency_factor);
    header.add("tril.rope_high_frequency_factor", rope.high_frequency_factor);
  }
}

// Llama 3's scaling, as llama.cpp has it: a divisor for each pair's frequency.
StreamedArray frequency_factors(const TransformerConfig& c) {
  const int64_t pairs = c.head_size / 2;
  RopeConfig plain = c.attention.rope;
  plain.scaling = RopeScaling::kNone;
  plain.factor = 1;
  std::vector<double> before(static_cast<size_t>(pairs)), after(before);
  rope_frequencies(plain, c.head_size, before.data());
  rope_frequencies(c.attention.rope, c.head_size, after.data());
  return {
      .name = "rope_freqs.weight", .shape = {pairs}, .read = [=](int64_t first, int64_t count, float* out) {
        for (int64_t i = 0; i < count; ++i) {
          const auto at = static_cast<size_t>(first + i);
          out[i] = static_cast<float>(before[at] / after[at]);
        }
      }};
}

DType type_of(const StreamedArray& array, DType wanted) {
  if (array.shape.rank() < 2 || array.name == "position_embd.weight") return DType::kF32;
  return array.shape[1] % dtype_info(wanted).block_elements == 0 ? wanted : DType::kF16;
}

}  // namespace

std::string write_gguf_model(const Path& path, const TransformerConfig& config, const ReadRows& rows,
                             const Tokenizer& tokenizer, const ModelText& text, DType dtype) {
  const TransformerConfig c = config.resolved();
  std::string reason;
  const std::string architecture = gguf_architecture(c, reason);
  check_use(!architecture.empty(), "{}: {}", path.string(), reason);
  check_use(tokenizer.vocabulary() <= c.vocabulary, "the tokenizer has {} ids, the model {}",
            tokenizer.vocabulary(), c.vocabulary);
  const TokenIds ids = token_ids(&tokenizer, text);
  GgufHeader header;
  header.add("general.architecture", std::string_view(architecture));
  const std::string name = path.stem().string();
  header.add("general.name", std::string_view(name));
  header.add("general.file_type", file_type(dtype));
  if (dtype_info(dtype).block_elements > 1) header.add("general.quantization_version", uint32_t{2});
  header.add("general.alignment", static_cast<uint32_t>(kGgufAlignment));
  add_sizes(c, architecture, header);
  tokenizer.add_to(header, c.vocabulary);
  if (!text.chat_template.empty())
    header.add("tokenizer.chat_template", std::string_view(text.chat_template));
  // The tokenizer has said its end of text; another token that ends a turn has a key of its own.
  for (const int32_t id : ids.stop) {
    if (id == tokenizer.end_of_text()) continue;
    header.add("tokenizer.ggml.eot_token_id", static_cast<uint32_t>(id));
    break;
  }
  std::vector<StreamedArray> arrays = arrays_to_write(gguf_layout(c, architecture), rows);
  for (StreamedArray& array : arrays) array.dtype = type_of(array, dtype);
  if (c.attention.positions == Positions::kRope && c.attention.rope.scaling == RopeScaling::kLlama3)
    arrays.push_back(frequency_factors(c));
  write_gguf(path, header, arrays);
  return architecture;
}

}  // namespace tril
