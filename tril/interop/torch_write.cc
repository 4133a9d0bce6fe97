#include <cmath>
#include <memory>

#include "tril/containers/torch_file.h"
#include "tril/interop/torch_checkpoint.h"

namespace tril {
namespace {

constexpr const char* kInstead = "write a folder with safetensors";

// Throws unless `c` differs from `expected`, its sizes and dropout taken, in nothing.
void check_same(const TransformerConfig& c, TransformerConfig expected, const char* program) {
  if (c.scale == 1.0f / std::sqrt(static_cast<float>(c.head_size))) expected.scale = c.scale;
  check_use(
      c == expected,
      "{} has layer norms of epsilon 1e-5, learned positions, its own activation, biases and head, and no "
      "variants; this model ({}) has others; {}",
      program, c.architecture(), kInstead);
}

void check_block(const TransformerConfig& c, const char* program) {
  check_use(c.kv_heads == c.heads && c.head_size * c.heads == c.channels,
            "{} has as many key/value heads as heads, of channels / heads features; this model has {} and {} "
            "of {}; {}",
            program, c.heads, c.kv_heads, c.head_size, kInstead);
  check_use(c.mlp_hidden == 4 * c.channels,
            "{} has 4 features in the MLP for each channel; this model has {} of {}; {}", program,
            c.mlp_hidden, c.channels, kInstead);
}

void write_sizes(PickleWriter& out, std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  for (const auto& [key, size] : sizes) {
    out.text(key);
    out.integer(size);
  }
}

// The causal mask that each head registers as a buffer: ones on and below the diagonal.
StreamedArray causal_mask(int64_t time) {
  return {.name = "tril", .shape = {time, time}, .read = [time](int64_t first, int64_t count, float* out) {
            for (int64_t r = 0; r < count; ++r)
              for (int64_t c = 0; c < time; ++c) out[r * time + c] = c <= first + r ? 1.0f : 0.0f;
          }};
}

// What load_state_dict expects besides the weights.
void write_tutorial_buffers(TorchWriter& writer, const TransformerConfig& c) {
  std::vector<int64_t> positions(static_cast<size_t>(c.context));
  for (size_t i = 0; i < positions.size(); ++i) positions[i] = static_cast<int64_t>(i);
  writer.values().text("pos_idxs");
  writer.integers(std::move(positions));
  size_t mask = 0;
  for (int64_t layer = 0; layer < c.layers; ++layer) {
    for (int64_t head = 0; head < c.heads; ++head) {
      writer.values().text(fmt::format("attn_blocks.{}.attn.heads.{}.tril", layer, head));
      if (layer == 0 && head == 0)
        mask = writer.tensor(causal_mask(c.context));
      else
        writer.tensor_again(mask);
    }
  }
}

}  // namespace

void write_torch_tutorial(const Path& path, const TransformerConfig& config, const ReadRows& rows) {
  constexpr const char* kProgram = "the tutorials' program";
  const TransformerConfig c = config.resolved();
  check_block(c, kProgram);
  TransformerConfig classic = c;
  classic.set_architecture("classic");
  check_same(c, classic, kProgram);
  TorchWriter writer(path);
  PickleWriter& values = writer.values();
  values.begin_dictionary();
  values.text("model_state_dict");
  values.begin_dictionary();
  for (StreamedArray& array : arrays_to_write(tutorial_layout(c), rows)) {
    values.text(array.name);
    writer.tensor(std::move(array));
  }
  write_tutorial_buffers(writer, c);
  values.end_dictionary();
  values.text("config");
  values.begin_dictionary();
  write_sizes(values, {{"vocab_size", c.vocabulary},
                       {"context_length", c.context},
                       {"n_embed", c.channels},
                       {"n_head", c.heads},
                       {"n_blocks", c.layers}});
  values.end_dictionary();
  values.end_dictionary();
  writer.finish();
}

void write_torch_nanogpt(const Path& path, const TransformerConfig& config, const ReadRows& rows) {
  constexpr const char* kProgram = "nanoGPT";
  const TransformerConfig c = config.resolved();
  check_block(c, kProgram);
  check_use(
      c.activation != Activation::kGeluTanh,
      "nanoGPT computes the exact GELU (erf), this model was trained with the tanh form, which differs; {}",
      kInstead);
  TransformerConfig whole = c;
  whole.set_architecture("gpt");
  whole.activation = Activation::kGeluErf;
  const bool bias = c.qkv_bias || c.projection_bias || c.mlp_bias || c.norm_bias;
  whole.qkv_bias = whole.projection_bias = whole.mlp_bias = whole.norm_bias = bias;
  TransformerConfig same = whole;  // some biases may be missing here: they are zeros there
  same.qkv_bias = c.qkv_bias, same.projection_bias = c.projection_bias, same.mlp_bias = c.mlp_bias;
  same.norm_bias = c.norm_bias;
  check_same(c, same, kProgram);
  TorchWriter writer(path);
  PickleWriter& values = writer.values();
  values.begin_dictionary();
  values.text("model");
  values.begin_dictionary();
  size_t table = 0;
  for (StreamedArray& array : arrays_to_write(nanogpt_layout(whole), rows)) {
    const bool is_table = array.name == "transformer.wte.weight";
    values.text(array.name);
    const size_t number = writer.tensor(std::move(array));
    if (is_table) table = number;
  }
  values.text("lm_head.weight");
  writer.tensor_again(table);
  values.end_dictionary();
  values.text("model_args");
  values.begin_dictionary();
  write_sizes(values, {{"n_layer", c.layers},
                       {"n_head", c.heads},
                       {"n_embd", c.channels},
                       {"block_size", c.context},
                       {"vocab_size", c.vocabulary}});
  values.text("bias");
  values.flag(bias);
  values.text("dropout");
  values.number(c.dropout);
  values.end_dictionary();
  values.text("config");
  values.begin_dictionary();
  values.end_dictionary();
  values.end_dictionary();
  writer.finish();
}

}  // namespace tril
