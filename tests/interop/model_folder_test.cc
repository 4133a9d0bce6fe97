#include "tril/interop/model_folder.h"

#include <fstream>

#include "tests/interop/model_folder_fixture.h"
#include "tril/generate/generate.h"
#include "tril/train/trainer.h"

namespace tril {
namespace {

using testing::kText;
using testing::logits_of;
using testing::Model;
using testing::small_config;

using ModelFolder = testing::ModelFolderTest;

TEST_F(ModelFolder, Gpt2RoundTrips) {
  TransformerConfig c = gpt();
  expect_round_trip(c, "gpt2");
  c.dropout = 0.1f;
  c.activation = Activation::kGeluErf;
  expect_round_trip(c, "gpt2");
  c.activation = Activation::kRelu;
  c.mlp_hidden = 40;
  expect_round_trip(c, "gpt2");
  c.vocabulary += 7;  // padded
  expect_round_trip(c, "gpt2");
}

// Every variant of the block, through config.json and back.
TEST_F(ModelFolder, VariantsRoundTrip) {
  TransformerConfig c = gpt();
  c.norm.epsilon = 1e-6f;
  expect_round_trip(c, "gpt2");
  c = gpt();
  c.set_architecture("llama");
  expect_round_trip(c, "llama");
  EXPECT_EQ(load_model(folder()).config.architecture(), "llama");
  c.attention = {.positions = Positions::kRope,
                 .rope = {.base = 5000,
                          .size = 4,
                          .interleaved = true,
                          .scaling = RopeScaling::kYarn,
                          .factor = 4,
                          .original_context = 64,
                          .low_frequency_factor = 2,
                          .high_frequency_factor = 5,
                          .beta_fast = 16,
                          .beta_slow = 2,
                          .attention_factor = 1.25f},
                 .window = 5,
                 .softcap = 30,
                 .qk_norm = true,
                 .sinks = true};
  c.norm = {NormKind::kRms, 1e-6f};
  c.activation = Activation::kGeGlu;
  c.parallel_residual = true;
  c.logit_softcap = 20;
  c.scale = 0.25f;
  c.z_loss = 1e-4f;
  expect_round_trip(c, "tril");
  EXPECT_TRUE(load_model(folder()).config == c.resolved());
  c = gpt();
  c.attention.positions = Positions::kAlibi;
  expect_round_trip(c, "tril");
  // Every field is asked for, and no other is taken.
  expect_refused([](Json& j) { j.erase("softcap"); }, {"\"softcap\" is missing"});
  expect_refused([](Json& j) { j["norm"] = nullptr; }, {"\"norm\" is missing"});
  expect_refused([](Json& j) { j["global_every"] = 2; }, {"\"global_every\" is not known"});
  expect_refused([](Json& j) { j["architecture"] = "llama"; }, {"\"architecture\" is \"llama\"", "custom"});
  expect_refused([](Json& j) { j["positions"] = 7; }, {"\"positions\" is 7; text is expected"});
  expect_refused(
      [](Json& j) {
        j["rope_factor"] = 4;
        j["positions"] = "rope";
      },
      {"factor 4 with none scaling"});
  expect_refused([](Json& j) { j["positions"] = "relative"; }, {"config.json", "\"positions\"", "relative"});
}

TEST_F(ModelFolder, MissingBiasesAreZeroThereAndMissingHere) {
  TransformerConfig c = gpt();
  c.qkv_bias = c.projection_bias = c.mlp_bias = c.norm_bias = false;
  expect_round_trip(c, "gpt2");
  const SafetensorsFile file(weights());
  testing::expect_all_zero("bias", {file.f32("transformer.h.1.attn.c_attn.bias", {72}).f32(), 72});
  testing::expect_all_zero("bias", {file.f32("transformer.ln_f.bias", {24}).f32(), 24});
  EXPECT_FALSE(load_model(folder()).config.qkv_bias);
  change_weights([](Tensors& t) { t.tensors[t.index("transformer.h.1.attn.c_attn.bias")].f32()[3] = 1; });
  expect_refused({"h.1.attn.c_attn.bias", "not zero"});
}

TEST_F(ModelFolder, OtherArchitecturesKeepTheirOwnLayout) {
  TransformerConfig c = small_config("classic", tokenizer_.vocabulary());
  expect_round_trip(c, "tril");
  c = gpt();
  c.kv_heads = 1;
  expect_round_trip(c, "tril");
  c = gpt();
  c.head_size = 5;
  expect_round_trip(c, "tril");
  c = gpt();
  c.scale = 0.3f;
  expect_round_trip(c, "tril");
  EXPECT_EQ(load_model(folder()).config.scale, 0.3f);
  c = gpt();
  c.tied_head = false;
  expect_round_trip(c, "tril");
}

TEST_F(ModelFolder, Gpt2FilesAreAsHuggingFaceWritesThem) {
  const auto model = saved(gpt());
  const SafetensorsFile file(weights());
  EXPECT_EQ(file.arrays().size(), 2 + 2 * 12 + 2u);
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(file.find("lm_head.weight"), nullptr);
  const int64_t v = tokenizer_.vocabulary();
  file.f32("transformer.wte.weight", {v, 24});
  file.f32("transformer.wpe.weight", {16, 24});
  file.f32("transformer.h.0.attn.c_proj.weight", {24, 24});
  file.f32("transformer.h.0.mlp.c_fc.weight", {24, 96});
  file.f32("transformer.h.0.mlp.c_proj.weight", {96, 24});
  file.f32("transformer.h.0.mlp.c_proj.bias", {24});
  file.f32("transformer.h.1.ln_2.bias", {24});
  const std::tuple<const char*, const char*, int64_t, int64_t> transposed[] = {
      {"attn.c_attn", "attention.qkv", 24, 72},
      {"attn.c_proj", "attention.projection", 24, 24},
      {"mlp.c_fc", "mlp.hidden", 24, 96},
      {"mlp.c_proj", "mlp.projection", 96, 24}};
  for (const auto& [their_name, our_name, in, out] : transposed) {
    const ConstView theirs = file.f32(fmt::format("transformer.h.1.{}.weight", their_name), {in, out});
    const float* const ours = model->parameters.find(fmt::format("blocks.1.{}.weight", our_name)).value.f32();
    for (int64_t i = 0; i < in * out; ++i)
      ASSERT_EQ(theirs.f32()[i], ours[i % out * in + i / out]) << our_name;
  }
  const Json json = parse_json(read_text_file(config_path()));
  EXPECT_EQ(json["architectures"], Json({"GPT2LMHeadModel"}));
  EXPECT_EQ(json["model_type"], "gpt2");
  EXPECT_EQ(json["activation_function"], "gelu_new");
  EXPECT_EQ(json["n_positions"], 16);
  EXPECT_EQ(json["n_ctx"], 16);
  EXPECT_EQ(json["eos_token_id"], tokenizer_.end_of_text());
  EXPECT_EQ(json["tie_word_embeddings"], true);
  EXPECT_TRUE(json["n_inner"].is_null());
}

TEST_F(ModelFolder, OtherSpellingsOfTheSameFileAreRead) {
  const auto model = saved(gpt());
  const std::vector<float> expected = logits_of(model->transformer);
  for (const std::string prefix : {"", "_orig_mod.transformer.", "module.transformer.", "model."}) {
    change_weights([&](Tensors& t) {
      for (std::string& name : t.names)
        name = prefix + name.substr(name.find(name.find("wte") != name.npos    ? "wte"
                                              : name.find("wpe") != name.npos  ? "wpe"
                                              : name.find("ln_f") != name.npos ? "ln_f"
                                                                               : "h."));
    });
    testing::expect_same_bits(prefix, logits_of(*load_model(folder()).model), expected);
  }
  change_weights([&](Tensors& t) {
    t.add("h.0.attn.bias", {16, 16}, 1);
    t.add("h.1.attn.masked_bias", {1}, -1e4f);
  });
  testing::expect_same_bits("masks", logits_of(*load_model(folder()).model), expected);
  change_config([](Json& json) {
    json.erase("tril");
    json.erase("n_inner");
    json.erase("tie_word_embeddings");
  });
  testing::expect_same_bits("plain config", logits_of(*load_model(folder()).model), expected);
}

TEST_F(ModelFolder, TheTiedHeadMayBeWrittenTwiceButNotDiffer) {
  const auto model = saved(gpt());
  change_weights([&](Tensors& t) {
    t.add("lm_head.weight", {gpt().vocabulary, 24});
    const Weight& table = model->parameters.find("token_embedding.weight");
    std::copy_n(table.value.f32(), table.value.elements(), t.tensors.back().f32());
  });
  testing::expect_same_bits("tied", logits_of(*load_model(folder()).model), logits_of(model->transformer));
  change_weights([&](Tensors& t) { t.tensors[t.index("lm_head.weight")].f32()[7] += 1; });
  expect_refused({"lm_head.weight and wte.weight differ"});
  change_config([](Json& json) { json["tie_word_embeddings"] = false; });
  EXPECT_FALSE(load_model(folder()).config.tied_head);
  change_weights([](Tensors& t) { t.remove("lm_head.weight"); });
  expect_refused({"lm_head.weight", "missing"});
}

TEST_F(ModelFolder, DamageIsNamed) {
  const auto change = [&](const std::function<void(Tensors&)>& f,
                          std::initializer_list<std::string_view> parts) {
    saved(gpt());
    change_weights(f);
    expect_refused(parts);
  };
  change([](Tensors& t) { t.remove("transformer.h.1.mlp.c_fc.bias"); },
         {"model.safetensors", "h.1.mlp.c_fc.bias", "missing"});
  change([](Tensors& t) { t.add("transformer.h.2.ln_1.weight", {24}); }, {"h.2.ln_1.weight", "no place"});
  change([](Tensors& t) { t.add("wte.weight", {3, 3}); }, {"wte.weight", "same tensor"});
  change(
      [](Tensors& t) {
        t.remove("transformer.h.0.mlp.c_fc.weight");
        t.add("transformer.h.0.mlp.c_fc.weight", {96, 24});
      },
      {"h.0.mlp.c_fc.weight", "96", "24"});
}

TEST_F(ModelFolder, OneFlippedBitIsNoticed) {
  saved(gpt());
  std::string bytes = read_text_file(folder() / "model.safetensors");
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  write_file_atomic(folder() / "model.safetensors", bytes);
  expect_refused({"model.safetensors", "checksum", "altered or damaged"});
}

TEST_F(ModelFolder, ConfigsAreCheckedBeforeTheyAreBelieved) {
  saved(gpt());
  expect_refused([](Json& j) { j["model_type"] = "bloom"; },
                 {"config.json", "bloom", "tril reads gpt2, llama"});
  expect_refused([](Json& j) { j.erase("n_layer"); }, {"\"n_layer\" is missing"});
  expect_refused([](Json& j) { j["n_layer"] = 5000; }, {"h.2."});
  expect_refused([](Json& j) { j["vocab_size"] = 2000000000; }, {"wte.weight"});
  expect_refused([](Json& j) { j["n_embd"] = -24; }, {"\"n_embd\" is -24"});
  expect_refused([](Json& j) { j["n_embd"] = "24"; }, {"\"n_embd\" is \"24\""});
  expect_refused([](Json& j) { j["n_embd"] = 1e300; }, {"\"n_embd\""});
  expect_refused([](Json& j) { j["n_embd"] = 1099511627776; }, {"config.json", "channels"});
  expect_refused([](Json& j) { j["n_head"] = 5; },
                 {"config.json", "24 channels cannot be divided among 5 heads"});
  expect_refused([](Json& j) { j["n_head"] = 0; }, {"config.json", "heads"});
  expect_refused([](Json& j) { j["activation_function"] = "swish"; }, {"swish", "gelu_new"});
  expect_refused([](Json& j) { j["layer_norm_epsilon"] = 0; }, {"norm-epsilon"});
  expect_refused([](Json& j) { j["scale_attn_by_inverse_layer_idx"] = true; },
                 {"scale_attn_by_inverse_layer_idx"});
  expect_refused([](Json& j) { j["tril"] = 5; }, {"\"tril\""});
  expect_refused([](Json& j) { j["resid_pdrop"] = 1.5; }, {"config.json", "dropout"});
  expect_refused([](Json& j) { j = Json::array(); }, {"config.json", "JSON object"});
  write_file_atomic(config_path(), "{");
  expect_refused({"config.json", "not a JSON object"});

  remove_tree(folder());
  saved(small_config("classic", tokenizer_.vocabulary()));
  expect_refused([](Json& j) { j["activation"] = "swish"; }, {"config.json", "swish"});
  expect_refused([](Json& j) { j["format"] = 3; }, {"config.json", "this tril reads 1 and 2"});
}

TEST_F(ModelFolder, MissingFilesAreNamed) {
  expect_refused({"model", "no such file or folder"});
  saved(gpt());
  std::filesystem::rename(weights(), folder() / "other");
  expect_refused({"model.safetensors", "cannot open"});
  std::ofstream(folder() / "model.safetensors.index.json") << "{}";
  expect_refused({"index.json", "weight_map"});
  std::filesystem::rename(folder() / "other", weights());
  std::filesystem::remove(folder() / "tokenizer.json");
  EXPECT_EQ(load_model(folder()).tokenizer, nullptr);
  std::filesystem::remove(config_path());
  expect_refused({"config.json", "cannot open"});
}

TEST_F(ModelFolder, TheTokenizerMustFit) {
  saved(gpt());
  const std::string more = std::string(kText) + "ABC";
  const std::string_view view = more;
  Tokenizer::characters({&view, 1}, true).save(folder() / "tokenizer.json");
  expect_refused({"tokenizer has", "different models"});
  const Model model(small_config("gpt", 4));
  testing::expect_error(ErrorKind::kUse, {"the tokenizer has"}, [&] {
    save_model_folder(root_ / "none", small_config("gpt", 4), model.parameters, tokenizer_);
  });
  EXPECT_FALSE(std::filesystem::exists(root_ / "none"));
}

TEST_F(ModelFolder, LoadsWithoutGradients) {
  saved(gpt());
  EXPECT_FALSE(load_model(folder()).parameters->items()[0].weight->gradient);
}

// Train, save, load, generate: the text comes back.
TEST_F(ModelFolder, WhatWasLearnedIsWrittenOut) {
  TrainOptions o;
  o.steps = 500;
  o.batch = 8;
  o.learning_rate = 5e-3f;
  o.min_learning_rate = 5e-4f;
  o.warmup = 10;
  Corpus corpus;
  for (int i = 0; i < 8; ++i) {
    const auto ids = tokenizer_.encode(kText);
    corpus.train.insert(corpus.train.end(), ids.begin(), ids.end());
  }
  ThreadPool pool(2);
  Trainer trainer(gpt(), o, corpus, pool);
  while (trainer.steps_done() < o.steps) trainer.step();
  save_model_folder(folder(), trainer.model().config(), trainer.parameters(), tokenizer_);
  const LoadedModel loaded = load_model(folder());
  const auto prompt = loaded.tokenizer->encode("the quick brown");
  const auto ids = generate(*loaded.model, pool, prompt, 45, {.temperature = 0});
  EXPECT_EQ(loaded.tokenizer->decode(ids), kText.substr(15, 45));
}

}  // namespace
}  // namespace tril
