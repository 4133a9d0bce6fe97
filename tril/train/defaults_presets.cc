#include <algorithm>

#include "tril/train/defaults.h"

namespace tril {
namespace {

struct Sizes {
  int64_t layers, heads, channels, context, batch;
};

TrainOptions shaped(const Sizes& sizes, std::string tokenizer) {
  TrainOptions o;
  o.arch = "gpt";
  o.layers = sizes.layers;
  o.heads = sizes.heads;
  o.channels = sizes.channels;
  o.context = sizes.context;
  o.batch = sizes.batch;
  o.tokenizer = std::move(tokenizer);
  return o;
}

TrainOptions without_qkv_bias(TrainOptions o) {
  o.qkv_bias = "false";
  return o;
}

TrainOptions gpt2(int64_t context) {
  TrainOptions o = shaped({12, 12, 768, context, 4}, "bpe");
  o.vocab = 50257;
  o.learning_rate = 6e-4f;
  return o;
}

TrainOptions char_6x384() {
  TrainOptions o = without_qkv_bias(shaped({6, 6, 384, 256, 64}, "char"));
  o.dropout = 0.2f;
  o.steps = 5000;
  o.learning_rate = 1e-3f;
  o.min_learning_rate = 1e-4f;
  o.warmup = 100;
  return o;
}

TrainOptions seed_13m() {
  TrainOptions o = shaped({1, 8, 128, 128, 32}, "bpe");
  o.arch = "classic";
  o.vocab = 50304;
  o.dropout = 0.1f;
  return o;
}

TrainOptions story_8x512() {
  TrainOptions o = without_qkv_bias(shaped({8, 8, 512, 512, 8}, "bpe"));
  o.vocab = 4096;
  return o;
}

TrainOptions shakespeare_char_cpu() {
  TrainOptions o = without_qkv_bias(shaped({4, 4, 128, 64, 12}, "char"));
  o.steps = 2000;
  o.learning_rate = 1e-3f;
  o.min_learning_rate = 1e-4f;
  o.warmup = 100;
  o.beta2 = 0.99f;
  return o;
}

}  // namespace

const std::vector<Preset>& presets() {
  static const std::vector<Preset> all = {
      {"shakespeare-char-cpu", "a character model that learns Shakespeare's tone in minutes on a laptop",
       shakespeare_char_cpu(), 65},
      {"char-4x128", "4 layers of 128 channels on characters", shakespeare_char_cpu(), 65},
      {"char-6x384", "6 layers of 384 channels on characters, dropout 0.2", char_6x384(), 65},
      {"adder-2x64", "2 layers of 64 channels: sums and other small tasks",
       without_qkv_bias(shaped({2, 4, 64, 32, 128}, "char")), 14},
      {"names-1x16", "1 layer of 16 channels: names", without_qkv_bias(shaped({1, 4, 16, 16, 32}, "char")),
       27},
      {"seed-13m", "the tutorials' 13M model: one ReLU block, 50,304 ids", seed_13m(), 50304},
      {"story-8x512", "8 layers of 512 channels, 4,096 ids: short stories", story_8x512(), 4096},
      {"gpt2-b4t64", "GPT-2 small, 4 windows of 64 tokens", gpt2(64), 50257},
      {"gpt2-b4t256", "GPT-2 small, 4 windows of 256 tokens", gpt2(256), 50257},
      {"gpt2-b4t1024", "GPT-2 small, 4 windows of 1,024 tokens", gpt2(1024), 50257},
  };
  return all;
}

TrainOptions preset_options(const Preset& preset, std::string_view arch) {
  TrainOptions o = preset.options;
  if (arch.empty()) return o;
  o.arch = arch;
  o.qkv_bias.clear();
  return o;
}

const Preset& find_preset(std::string_view name) {
  const auto it =
      std::find_if(presets().begin(), presets().end(), [&](const Preset& p) { return p.name == name; });
  if (it != presets().end()) return *it;
  std::string names;
  for (const Preset& p : presets()) names += fmt::format("{}{}", names.empty() ? "" : ", ", p.name);
  fail(ErrorKind::kUse, "--preset '{}' is not known; the presets are {}", name, names);
}

}  // namespace tril
