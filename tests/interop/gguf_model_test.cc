// Models in GGUF files: written, read again, damaged.
#include "tril/interop/gguf_model.h"

#include "tests/interop/model_folder_fixture.h"
#include "tests/support/mutate.h"
#include "tests/support/test_data.h"
#include "tril/interop/export_model.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::expect_near;
using testing::logits_of;
using testing::Model;
using testing::small_config;

class GgufModel : public testing::ModelFolderTest {
 protected:
  GgufModel() {
    // Byte-level BPE: what GGUF can hold.
    tokenizer_ = Tokenizer::train_bpe({&testing::kText, 1}, 270);
  }
  Path file() const { return root_ / "model.gguf"; }
  TransformerConfig llama() const {
    TransformerConfig c = small_config("llama", tokenizer_.vocabulary() + 3);
    c.channels = 32, c.heads = 8, c.kv_heads = 2, c.head_size = 4, c.mlp_hidden = 64;
    return c;
  }
  TransformerConfig gpt() const {
    TransformerConfig c = small_config("gpt", tokenizer_.vocabulary());
    c.channels = 32, c.heads = 4, c.kv_heads = 4, c.head_size = 8, c.mlp_hidden = 128;
    return c;
  }
  std::unique_ptr<Model> written(const TransformerConfig& config, DType dtype = DType::kF32,
                                 const ModelText& text = {}) {
    auto model = std::make_unique<Model>(config);
    write_gguf_model(file(), config, rows_of(model->parameters), tokenizer_, text, dtype);
    return model;
  }
  void expect_file(const TransformerConfig& config, std::string_view architecture) {
    const auto model = written(config);
    EXPECT_EQ(GgufFile(file()).text("general.architecture"), architecture);
    const LoadedModel loaded = load_model(file());
    expect_near(std::string(architecture), logits_of(*loaded.model), logits_of(model->transformer), 1e-5);
    ASSERT_NE(loaded.tokenizer, nullptr);
    EXPECT_EQ(loaded.tokenizer->encode(testing::kText), tokenizer_.encode(testing::kText));
  }
  void expect_refused_file(std::initializer_list<std::string_view> parts) {
    expect_error(ErrorKind::kData, parts, [&] { load_model(file()); });
  }
};

TEST_F(GgufModel, RoundTrips) {
  for (const int64_t kv_heads : {8, 2, 1})
    for (const bool interleaved : {false, true}) {
      SCOPED_TRACE(fmt::format("{} {}", kv_heads, interleaved));
      TransformerConfig c = llama();
      c.kv_heads = kv_heads;
      c.attention.rope.interleaved = interleaved;
      expect_file(c, "llama");
    }
  const auto with = [&](auto change) {
    TransformerConfig c = llama();
    change(c);
    return c;
  };
  expect_file(with([](auto& c) { c.tied_head = false; }), "llama");
  expect_file(with([](auto& c) { c.qkv_bias = c.projection_bias = c.mlp_bias = true; }), "llama");
  expect_file(with([](auto& c) { c.qkv_bias = true; }), "qwen2");
  expect_file(with([](auto& c) { c.qkv_bias = c.attention.rope.interleaved = true; }), "qwen2");
  expect_file(with([](auto& c) { c.attention.qk_norm = true; }), "qwen3");
  expect_file(with([](auto& c) { c.attention.qk_norm = c.attention.rope.interleaved = true; }), "qwen3");
  expect_file(with([](auto& c) {
                c.attention.rope.scaling = RopeScaling::kLinear;
                c.attention.rope.factor = 4;
              }),
              "llama");
  expect_file(gpt(), "gpt2");
  TransformerConfig c = gpt();
  c.qkv_bias = c.projection_bias = c.mlp_bias = c.norm_bias = false;
  expect_file(c, "gpt2");
}

TEST_F(GgufModel, Types) {
  for (const TransformerConfig& c : {llama(), gpt()})
    for (const DType dtype : {DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0}) {
      const std::string what(dtype_info(dtype).name);
      SCOPED_TRACE(what);
      const auto model = written(c, dtype);
      testing::round_products(model->parameters, dtype);
      expect_near(what, logits_of(*load_model(file()).model), logits_of(model->transformer), 1e-5);
      const StoredModel stored = open_model(file());
      const ArraysByName arrays = arrays_by_name(stored.arrays);
      EXPECT_EQ(require_array(stored.arrays, arrays, "token_embd.weight").dtype, dtype);
      EXPECT_EQ(require_array(stored.arrays, arrays, "blk.1.ffn_down.weight").dtype, dtype);
      EXPECT_EQ(require_array(stored.arrays, arrays, "blk.1.attn_norm.weight").dtype, DType::kF32);
    }
  TransformerConfig narrow = llama();  // rows of 20: no whole blocks
  narrow.mlp_hidden = 20;
  written(narrow, DType::kQ8_0);
  const StoredModel stored = open_model(file());
  EXPECT_EQ(require_array(stored.arrays, arrays_by_name(stored.arrays), "blk.0.ffn_down.weight").dtype,
            DType::kF16);
}

TEST_F(GgufModel, FieldsOfLlamaCpp) {
  TransformerConfig c = llama();
  c.norm.epsilon = 1e-6f;
  written(c, DType::kQ8_0, {.chat_template = "{{ x }}", .stop_ids = {tokenizer_.end_of_text(), 7}});
  const GgufFile file_read(file());
  EXPECT_EQ(file_read.integer("general.file_type"), 7);
  EXPECT_EQ(file_read.integer("general.quantization_version"), 2);
  EXPECT_EQ(file_read.integer("llama.feed_forward_length"), 64);
  EXPECT_EQ(file_read.integer("llama.attention.head_count_kv"), 2);
  EXPECT_EQ(file_read.integer("llama.attention.key_length"), 4);
  EXPECT_EQ(file_read.number("llama.attention.layer_norm_rms_epsilon"), 1e-6f);
  EXPECT_EQ(file_read.text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_EQ(file_read.boolean("tokenizer.ggml.add_bos_token"), false);
  EXPECT_EQ(file_read.text("tokenizer.chat_template"), "{{ x }}");
  EXPECT_EQ(file_read.integer("tokenizer.ggml.eot_token_id"), 7);
  // As many tokens as the table has rows; those without a meaning are of type 5.
  const auto tokens = file_read.texts("tokenizer.ggml.tokens");
  ASSERT_EQ(std::ssize(tokens), c.vocabulary);
  EXPECT_EQ(tokens.back(), fmt::format("[PAD{}]", c.vocabulary - 1));
  EXPECT_EQ(file_read.integers("tokenizer.ggml.token_type").back(), 5);
  const LoadedModel loaded = load_model(file());
  EXPECT_EQ(loaded.text.chat_template, "{{ x }}");
  EXPECT_EQ(loaded.text.stop_ids, (std::vector<int32_t>{tokenizer_.end_of_text(), 7}));
}

TEST_F(GgufModel, WhatLlamaCppCannotComputeIsRefused) {
  const auto refused = [&](const TransformerConfig& c, std::string_view part) {
    expect_error(ErrorKind::kUse, {part, "instead"}, [&] { written(c); });
    EXPECT_FALSE(std::filesystem::exists(file()));
  };
  TransformerConfig c = gpt();
  c.activation = Activation::kGeluErf;
  refused(c, "tanh GELU, and this model has gelu");
  c.activation = Activation::kRelu;
  refused(c, "this model has relu");
  refused(small_config("classic", tokenizer_.vocabulary()), "not tied");
  c = llama();
  c.attention.window = 4;
  refused(c, "window");
  c = llama();
  c.activation = Activation::kGeGlu;
  refused(c, "GELU");
  c = llama();
  c.attention.sinks = true;
  refused(c, "sinks");
  tokenizer_ = Tokenizer::bytes(true);
  c = llama();
  refused(c, "byte-level BPE");
}

// Through folders and files and back: the same logits everywhere.
TEST_F(GgufModel, Conversions) {
  TransformerConfig c = llama();
  const std::vector<float> expected = logits_of(saved(c)->transformer);
  export_model(open_model(folder()), file(), {.format = ModelFormat::kGguf});
  export_model(open_model(file()), root_ / "hf", {.format = ModelFormat::kHuggingFace});
  export_model(open_model(root_ / "hf"), root_ / "own", {.format = ModelFormat::kTril});
  expect_near("hf", logits_of(*load_model(root_ / "hf").model), expected, 1e-5);
  EXPECT_EQ(read_text_file(root_ / "hf" / "model.safetensors"), read_text_file(weights()));
  EXPECT_EQ(load_model(root_ / "own").layout, "tril");
  expect_near("own", logits_of(*load_model(root_ / "own").model), expected, 1e-5);
  SerialExecutor executor;
  EXPECT_LT(compare_logits(folder(), file(), DType::kF32, executor).relative, 1e-5);
  expect_error(ErrorKind::kUse, {"--force"},
               [&] { export_model(open_model(folder()), file(), {.format = ModelFormat::kGguf}); });
  export_model(open_model(folder()), root_ / "hf", {.dtype = DType::kBF16, .replace = true});
  EXPECT_EQ(open_model(root_ / "hf").arrays.arrays[0].dtype, DType::kBF16);
}

TEST_F(GgufModel, DamageIsNamed) {
  written(llama());
  const std::string good = read_text_file(file());
  // A field's value is found by its key: u64 length, key, u32 type, value.
  const auto change = [&](std::string_view key, uint32_t value,
                          std::initializer_list<std::string_view> parts) {
    std::string bytes = good;
    const size_t at = bytes.find(key);
    ASSERT_NE(at, bytes.npos);
    std::memcpy(bytes.data() + at + key.size() + 4, &value, 4);
    write_file_atomic(file(), bytes);
    expect_refused_file(parts);
  };
  change("llama.block_count", 3, {"blk.2.", "missing"});
  change("llama.block_count", 1, {"blk.1.", "no place"});
  change("llama.block_count", 1u << 30, {"model.gguf", "layers"});
  change("llama.attention.head_count_kv", 3, {"8 heads cannot share 3 key/value heads"});
  change("llama.attention.head_count_kv", 0xFFFFFFFF, {"kv-heads"});
  change("llama.embedding_length", 64, {"token_embd.weight", "shape"});
  change("llama.context_length", 0, {"context"});
  change("llama.rope.freq_base", 0, {"base 0"});
  change("llama.attention.value_length", 5, {"values of 5"});
  std::string bytes = good;
  bytes.replace(bytes.find("llama.feed_forward_length"), 5, "other");
  write_file_atomic(file(), bytes);
  expect_refused_file({"llama.feed_forward_length is missing"});
  bytes = good;
  bytes.replace(bytes.find("blk.0.ffn_up.weight"), 5, "blk.7");
  write_file_atomic(file(), bytes);
  expect_refused_file({"blk.0.ffn_up.weight", "missing"});
  write_file_atomic(file(), good.substr(0, good.size() - 4000));
  expect_refused_file({"cut off"});
  write_file_atomic(file(), "GGUG");
  expect_refused_file({"not a model"});
}

// Of eight pairs with the frequencies 1, 0.1, ... three stay, one is on the ramp, four are divided.
TEST_F(GgufModel, FrequencyFactorsMustBeLlama3s) {
  TransformerConfig c = llama();
  c.head_size = 16;
  c.attention.rope = {.base = 1e8f, .scaling = RopeScaling::kLlama3, .factor = 8, .original_context = 8192};
  expect_file(c, "llama");
  const std::string good = read_text_file(file());
  const StoredModel stored = open_model(file());
  EXPECT_EQ(stored.config.attention.rope.factor, 8);
  float factors[8];
  read_f32(require_array(stored.arrays, arrays_by_name(stored.arrays), "rope_freqs.weight"), 0, 8, factors);
  EXPECT_EQ(factors[0], 1);
  EXPECT_GT(factors[3], 1);
  EXPECT_LT(factors[3], 8);
  EXPECT_EQ(factors[7], 8);
  const auto changed = [&](std::string_view key, auto value) {
    std::string bytes = good;
    std::memcpy(bytes.data() + bytes.find(key) + key.size() + 4, &value, sizeof value);
    write_file_atomic(file(), bytes);
  };
  changed("llama.rope.dimension_count", uint32_t{100});
  expect_refused_file({"rope_freqs.weight", "100 features of 16"});
  changed("tril.rope_original_context", uint32_t{4096});
  expect_refused_file({"rope_freqs.weight", "not Llama 3's"});
  changed("tril.rope_factor", 0.5f);
  expect_refused_file({"factor 0.5"});
  // Other programs' files do not say the numbers: those of Llama 3 are tried.
  std::string bytes = good;
  for (size_t at = 0; (at = bytes.find("tril.rope", at)) != bytes.npos; ++at) bytes.replace(at, 4, "name");
  write_file_atomic(file(), bytes);
  EXPECT_TRUE(load_model(file()).config == stored.config);
}

TEST_F(GgufModel, MutationsEndWell) {
  written(llama(), DType::kQ8_0);
  const std::string good = read_text_file(file());
  const size_t names = good.find("token_embd.weight");
  const size_t head = good.find("tokenizer.ggml.model");
  int survived = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const RandomStream random(seed, "gguf model");
    // Of the model's own fields, or of the tensors' descriptions: the tokenizer's have their own tests.
    std::string begin = good.substr(0, head), middle = good.substr(head, names - head),
                end = good.substr(names);
    if (seed % 2 == 0) {
      begin = testing::mutate(begin, random);
    } else {
      end = testing::mutate(end.substr(0, 900), random) + end.substr(900);
    }
    write_file_atomic(file(), begin + middle + end);
    survived += testing::ends_well([&] { load_model(file()); });
  }
  EXPECT_GT(survived, 0);
  EXPECT_LT(survived, 200);
}

}  // namespace
}  // namespace tril
