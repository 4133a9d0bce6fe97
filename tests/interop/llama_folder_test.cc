// Folders in the layout of Hugging Face's Llama and the models of its block.
#include <fstream>

#include "tests/interop/model_folder_fixture.h"
#include "tests/support/mutate.h"
#include "tests/support/test_data.h"
#include "tril/interop/config_json.h"
#include "tril/tensor/quantized.h"

namespace tril {
namespace {

using testing::logits_of;
using testing::Model;
using testing::small_config;

class LlamaFolder : public testing::ModelFolderTest {
 protected:
  TransformerConfig llama() const {
    TransformerConfig c = small_config("llama", tokenizer_.vocabulary());
    c.heads = 8, c.kv_heads = 2, c.head_size = 4;
    return c;
  }
  Json config() const { return parse_json(read_text_file(config_path())); }
};

TEST_F(LlamaFolder, RoundTripsInBothRotaryOrders) {
  for (const int64_t kv_heads : {8, 2, 1}) {
    for (const bool interleaved : {false, true}) {
      SCOPED_TRACE(fmt::format("{} key/value heads, interleaved {}", kv_heads, interleaved));
      TransformerConfig c = llama();
      c.kv_heads = kv_heads;
      c.attention.rope.interleaved = interleaved;
      c.dropout = 0.25f;
      c.z_loss = 1e-3f;
      expect_round_trip(c, "llama");
      EXPECT_TRUE(load_model(folder()).config == c.resolved());
    }
  }
}

TEST_F(LlamaFolder, WhichModelItIs) {
  const auto written = [&](auto change) {
    TransformerConfig c = llama();
    change(c);
    expect_round_trip(c, "llama");
    EXPECT_TRUE(load_model(folder()).config == c.resolved());
    return config()["model_type"].get<std::string>();
  };
  EXPECT_EQ(written([](auto& c) { c.tied_head = false; }), "llama");
  EXPECT_EQ(written([](auto& c) { c.activation = Activation::kGeGlu; }), "llama");
  EXPECT_EQ(written([](auto& c) { c.qkv_bias = c.projection_bias = true; }), "llama");
  EXPECT_EQ(written([](auto& c) { c.mlp_bias = true; }), "llama");
  EXPECT_EQ(written([](auto& c) { c.qkv_bias = true; }), "qwen2");
  EXPECT_EQ(written([](auto& c) { c.attention.window = 5; }), "mistral");
  EXPECT_EQ(written([](auto& c) { c.attention.qk_norm = true; }), "qwen3");
  EXPECT_EQ(written([](auto& c) { c.attention.qk_norm = c.attention.rope.interleaved = true; }), "qwen3");
  EXPECT_EQ(written([](auto& c) { c.qkv_bias = c.attention.rope.interleaved = true; }), "qwen2");
  EXPECT_EQ(written([](auto& c) {
              c.attention.rope.scaling = RopeScaling::kLinear;
              c.attention.rope.factor = 2;
            }),
            "llama");
  EXPECT_EQ(written([](auto& c) {
              c.attention.rope = {.base = 5e5f,
                                  .scaling = RopeScaling::kLlama3,
                                  .factor = 8,
                                  .original_context = 8,
                                  .low_frequency_factor = 2,
                                  .high_frequency_factor = 5};
            }),
            "llama");
  EXPECT_EQ(written([](auto& c) {
              c.attention.rope = {.scaling = RopeScaling::kYarn,
                                  .factor = 2,
                                  .original_context = 8,
                                  .beta_fast = 16,
                                  .beta_slow = 2,
                                  .attention_factor = 1.25f};
            }),
            "llama");
}

TEST_F(LlamaFolder, WhatTheyCannotComputeIsWrittenAsOurs) {
  const auto keeps_own = [&](auto change, std::string_view why) {
    TransformerConfig c = llama();
    change(c);
    expect_round_trip(c, "tril");
    std::string reason;
    EXPECT_EQ(llama_model_type(c, reason), "");
    EXPECT_NE(reason.find(why), std::string::npos) << reason;
  };
  keeps_own([](auto& c) { c.norm.kind = NormKind::kLayer; }, "RMS norm");
  keeps_own([](auto& c) { c.attention.positions = Positions::kNone; }, "rotary");
  keeps_own([](auto& c) { c.attention.rope.size = 2; }, "features of a head turn");
  keeps_own([](auto& c) { c.activation = Activation::kSilu; }, "gated");
  keeps_own([](auto& c) { c.parallel_residual = true; }, "parallel");
  keeps_own([](auto& c) { c.attention.softcap = 30; }, "softcap");
  keeps_own([](auto& c) { c.logit_softcap = 30; }, "softcap");
  keeps_own([](auto& c) { c.attention.sinks = true; }, "sinks");
  keeps_own([](auto& c) { c.scale = 0.3f; }, "scaled");
  keeps_own([](auto& c) { c.projection_bias = true; }, "output alone");
  keeps_own([](auto& c) { c.qkv_bias = c.mlp_bias = true; }, "MLP has biases");
  keeps_own([](auto& c) { c.qkv_bias = c.attention.qk_norm = true; }, "normalises");
  keeps_own([](auto& c) { c.attention.window = 3, c.attention.qk_norm = true; }, "window");
}

TEST_F(LlamaFolder, FilesAreAsHuggingFaceWritesThem) {
  TransformerConfig c = llama();
  c.norm.epsilon = 1e-5f;
  const auto model = saved(c);
  const SafetensorsFile file(weights());
  EXPECT_EQ(file.arrays().size(), 2 + 2 * 9u);
  const ConstView query = file.f32("model.layers.1.self_attn.q_proj.weight", {32, 24});
  const ConstView key = file.f32("model.layers.1.self_attn.k_proj.weight", {8, 24});
  file.f32("model.layers.1.self_attn.v_proj.weight", {8, 24});
  file.f32("model.layers.1.self_attn.o_proj.weight", {24, 32});
  file.f32("model.layers.0.mlp.gate_proj.weight", {c.mlp_hidden, 24});
  file.f32("model.layers.0.mlp.down_proj.weight", {24, c.mlp_hidden});
  file.f32("model.layers.0.post_attention_layernorm.weight", {24});
  file.f32("model.embed_tokens.weight", {c.vocabulary, 24});
  file.f32("model.norm.weight", {24});
  const float* const fused = model->parameters.find("blocks.1.attention.qkv.weight").value.f32();
  testing::expect_same_bits("query", {query.f32(), 32 * 24}, {fused, 32 * 24});
  testing::expect_same_bits("key", {key.f32(), 8 * 24}, {fused + 32 * 24, 8 * 24});
  const Json json = config();
  EXPECT_EQ(json["architectures"], Json({"LlamaForCausalLM"}));
  EXPECT_EQ(json["rms_norm_eps"], 1e-5);
  EXPECT_EQ(json["rope_theta"], 10000.0);
  EXPECT_EQ(json["rope_parameters"]["rope_theta"], 10000.0);
  EXPECT_EQ(json["rope_parameters"]["rope_type"], "default");
  EXPECT_EQ(json["head_dim"], 4);
  EXPECT_EQ(json["num_key_value_heads"], 2);
  EXPECT_EQ(json["tie_word_embeddings"], true);
  EXPECT_EQ(json["eos_token_id"], tokenizer_.end_of_text());
  EXPECT_EQ(json["torch_dtype"], "float32");
}

// q and k by hand: w.view(heads, D/2, 2, C).transpose(1, 2) takes interleaved rows to halves.
TEST_F(LlamaFolder, InterleavedRowsAreWrittenInHalves) {
  TransformerConfig c = llama();
  c.attention.rope.interleaved = true;
  const auto model = saved(c);
  const SafetensorsFile file(weights());
  const float* const fused = model->parameters.find("blocks.0.attention.qkv.weight").value.f32();
  for (const auto& [name, heads, first] : {std::tuple("q", 8, 0), {"k", 2, 32}}) {
    const ConstView view =
        file.f32(fmt::format("model.layers.0.self_attn.{}_proj.weight", name), {heads * 4, 24});
    for (int h = 0; h < heads; ++h)
      for (int pair = 0; pair < 2; ++pair)
        for (int half = 0; half < 2; ++half) {
          const float* const theirs = view.f32() + (h * 4 + half * 2 + pair) * 24;
          const float* const ours = fused + (first + h * 4 + pair * 2 + half) * 24;
          testing::expect_same_bits(name, {theirs, 24}, {ours, 24});
        }
  }
}

TEST_F(LlamaFolder, ChatTemplateAndStopIdsAreKept) {
  const Model model(llama());
  const ModelText text{.chat_template = "{{ messages }}", .stop_ids = {3, 1}};
  save_model_folder(folder(), llama(), model.parameters, tokenizer_, text);
  LoadedModel loaded = load_model(folder());
  EXPECT_EQ(loaded.text.chat_template, text.chat_template);
  EXPECT_EQ(loaded.text.stop_ids, text.stop_ids);
  write_file_atomic(folder() / "chat_template.jinja", "{{ other }}");
  write_file_atomic(folder() / "generation_config.json", "{\"eos_token_id\": 2}");
  loaded = load_model(folder());
  EXPECT_EQ(loaded.text.chat_template, "{{ other }}");
  EXPECT_EQ(loaded.text.stop_ids, std::vector<int32_t>{2});
  std::filesystem::remove(folder() / "chat_template.jinja");
  write_file_atomic(
      folder() / "tokenizer_config.json",
      R"({"chat_template": [{"name": "a", "template": "x"}, {"name": "default", "template": "y"}]})");
  EXPECT_EQ(load_model(folder()).text.chat_template, "y");
  write_file_atomic(folder() / "tokenizer_config.json", R"({"chat_template": [7]})");
  expect_refused({"tokenizer_config.json", "chat_template"});
}

TEST_F(LlamaFolder, OldSpellingsAreRead) {
  const auto model = saved(llama());
  const std::vector<float> expected = logits_of(model->transformer);
  change_weights([](Tensors& t) { t.add("model.layers.0.self_attn.rotary_emb.inv_freq", {2}, 1); });
  change_config([](Json& j) {
    j.erase("rope_parameters");
    j.erase("hidden_act");
    j.erase("attention_bias");
    j.erase("tril");
    j["pretraining_tp"] = 1;
  });
  testing::expect_same_bits("old", logits_of(*load_model(folder()).model), expected);
  change_config([](Json& j) { j["rope_scaling"] = {{"type", "linear"}, {"factor", 4.0}}; });
  EXPECT_EQ(load_model(folder()).config.attention.rope.factor, 4);
}

TEST_F(LlamaFolder, HalvesAreRead) {
  const auto model = saved(llama());
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    const SafetensorsFile file(weights());
    std::vector<Tensor> tensors;
    std::vector<NamedView> arrays;
    for (const NamedArray& array : file.arrays()) {
      tensors.emplace_back(Tensors::shape_of(array), dtype);
      quantize_row(dtype, array.elements(), reinterpret_cast<const float*>(array.bytes.data()),
                   tensors.back().view().data);
      arrays.push_back({array.name, tensors.back().view()});
    }
    const Path other = root_ / "halves";
    make_directories(other);
    std::filesystem::copy_file(config_path(), other / "config.json",
                               std::filesystem::copy_options::overwrite_existing);
    write_safetensors(other / "model.safetensors", arrays);
    const LoadedModel loaded = load_model(other);
    for (const auto& item : model->parameters.items()) {
      const std::span<const float> ours = testing::values_of(item);
      std::vector<float> rounded(ours.begin(), ours.end());
      testing::round_to(dtype, rounded);
      const ConstView read = loaded.parameters->find(item.info.name).value;
      testing::expect_same_bits(item.info.name, {read.f32(), rounded.size()}, rounded);
    }
  }
}

class Shards : public LlamaFolder {
 protected:
  // The weights in two files; `change` may spoil the index.
  void split(const std::function<void(Json&)>& change = {}) {
    remove_tree(folder());
    model_ = saved(llama());
    const Tensors tensors(weights());
    std::vector<NamedView> arrays[2];
    Json map;
    for (size_t i = 0; i < tensors.names.size(); ++i) {
      arrays[i % 2].push_back({tensors.names[i], tensors.tensors[i].view()});
      map[tensors.names[i]] = fmt::format("model-0000{}-of-00002.safetensors", i % 2 + 1);
    }
    for (int i = 0; i < 2; ++i)
      write_safetensors(folder() / fmt::format("model-0000{}-of-00002.safetensors", i + 1), arrays[i]);
    std::filesystem::remove(weights());
    Json index = {{"metadata", {{"total_size", 1}}}, {"weight_map", map}};
    if (change) change(index);
    write_file_atomic(folder() / "model.safetensors.index.json", to_text(index));
  }
  std::unique_ptr<Model> model_;
};

TEST_F(Shards, AreRead) {
  split();
  testing::expect_same_bits("shards", logits_of(*load_model(folder()).model), logits_of(model_->transformer));
}

TEST_F(Shards, DamageIsNamed) {
  const char* const norm = "model.norm.weight";
  const auto refused = [&](const std::function<void(Json&)>& change,
                           std::initializer_list<std::string_view> parts) {
    split(change);
    expect_refused(parts);
  };
  for (const char* name : {"../model.safetensors", "/etc/passwd", "a/b", "..", "", "a\\b"})
    refused([&](Json& j) { j["weight_map"][norm] = name; },
            {"index.json", "a file of this folder is expected"});
  refused([&](Json& j) { j["weight_map"][norm] = 7; }, {"a file name is expected"});
  refused([&](Json& j) { j["weight_map"][norm] = "absent.safetensors"; }, {"absent.safetensors"});
  refused([&](Json& j) { j["weight_map"]["model.other"] = "model-00001-of-00002.safetensors"; },
          {"model.other", "missing"});
  refused([&](Json& j) { j["weight_map"].erase(norm); }, {"norm.weight", "missing"});
  refused([&](Json& j) { j.erase("weight_map"); }, {"weight_map"});
  refused([&](Json& j) { j = Json::array(); }, {"weight_map"});
}

TEST_F(LlamaFolder, WhatCannotBeComputedIsRefusedByName) {
  saved(llama());
  const auto scaling = [](const char* type) {
    return [type](Json& j) { j["rope_parameters"] = {{"rope_type", type}, {"factor", 2.0}}; };
  };
  expect_refused(scaling("dynamic"), {"rope_parameters", "dynamic"});
  expect_refused(scaling("longrope"), {"longrope"});
  expect_refused(scaling("llama3"), {"original_max_position_embeddings"});
  expect_refused(
      [](Json& j) {
        j["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 0.5}};
      },
      {"factor 0.5"});
  expect_refused(
      [](Json& j) {
        j["rope_parameters"] = {{"partial_rotary_factor", 0.5}};
      },
      {"partial_rotary_factor"});
  expect_refused(
      [](Json& j) {
        j["rope_parameters"] = {{"rope_type", "yarn"}, {"factor", 2.0}, {"mscale", 0.7}};
      },
      {"mscale"});
  expect_refused([](Json& j) { j["hidden_act"] = "relu"; }, {"hidden_act", "relu"});
  expect_refused([](Json& j) { j["quantization_config"] = Json::object(); }, {"quantization_config"});
  expect_refused([](Json& j) { j["model_type"] = "gemma"; }, {"gemma", "embeddings are scaled"});
  expect_refused(
      [](Json& j) {
        j["layer_types"] = {"full_attention", "sliding_attention"};
      },
      {"layer_types"});
  expect_refused([](Json& j) { j["use_sliding_window"] = true; }, {"use_sliding_window"});
  expect_refused([](Json& j) { j["attention_bias"] = true; }, {"q_proj.bias", "missing"});
  expect_refused([](Json& j) { j["num_key_value_heads"] = 3; },
                 {"config.json", "8 heads cannot share 3 key/value heads"});
  expect_refused([](Json& j) { j["head_dim"] = 8; }, {"q_proj.weight", "(64, 24)"});
  expect_refused([](Json& j) { j["num_hidden_layers"] = 3; }, {"layers.2."});
  expect_refused([](Json& j) { j["num_hidden_layers"] = 1; }, {"layers.1.", "no place"});
  expect_refused([](Json& j) { j["eos_token_id"] = "x"; }, {"eos_token_id"});
}

TEST_F(LlamaFolder, DamagedConfigsEndWell) {
  TransformerConfig c = llama();
  c.attention.rope = {.scaling = RopeScaling::kYarn, .factor = 2, .original_context = 8};
  saved(c);
  const std::string good = read_text_file(config_path());
  int survived = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    write_file_atomic(config_path(),
                      testing::mutate(good, RandomStream(seed, "config"), "0123456789-.e\"{}[],:tfn"));
    survived += testing::ends_well([&] { load_model(folder()); });
  }
  EXPECT_GT(survived, 0);
  EXPECT_LT(survived, 300);
}

TEST_F(Shards, DamagedIndexesEndWell) {
  split();
  const Path index = folder() / "model.safetensors.index.json";
  const std::string good = read_text_file(index);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    write_file_atomic(index, testing::mutate(good, RandomStream(seed, "index"), "/.\\\"{}[],:model0123"));
    testing::ends_well([&] { load_model(folder()); });
  }
}

// A real model, as Hugging Face's Llama: the logits that a float32 reference computed.
TEST_F(LlamaFolder, Stories260K) {
  const auto data = testing::test_data("models/stories260K-hf");
  if (!data) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  const LoadedModel loaded = load_model(*data);
  EXPECT_EQ(loaded.layout, "llama");
  EXPECT_EQ(loaded.config.kv_heads, 4);
  testing::expect_golden_logits(*loaded.model, *data / "golden_logits.safetensors");
}

}  // namespace
}  // namespace tril
