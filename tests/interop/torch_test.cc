// PyTorch's files: what others wrote, what tril writes, and what strangers may write.
#include <gtest/gtest.h>

#include "tests/containers/safetensors_bytes.h"
#include "tests/containers/zip_bytes.h"
#include "tests/interop/interop_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_data.h"
#include "tril/containers/torch_file.h"
#include "tril/interop/torch_checkpoint.h"

namespace tril {
namespace {

using namespace std::string_literals;
using testing::expect_error;
using testing::load;
using testing::logits_of;
using testing::Model;

TransformerConfig small_config(std::string_view architecture) {
  TransformerConfig c;
  c.set_architecture(architecture);
  c.vocabulary = 13;
  c.context = 8;
  c.channels = 12;
  c.layers = 2;
  c.heads = 3;
  return c.resolved();
}

TransformerConfig nanogpt_config(bool bias) {
  TransformerConfig c = small_config("gpt");
  c.activation = Activation::kGeluErf;
  c.dropout = 0.25f;
  c.qkv_bias = c.projection_bias = c.mlp_bias = c.norm_bias = bias;
  return c;
}

class TorchCheckpoint : public ::testing::Test {
 protected:
  // A checkpoint of this pickle over storages of `floats` ones; the keys are 0, 1, ...
  Path write(const std::string& pickle, size_t storages = 1, size_t floats = 64) {
    std::vector<std::pair<std::string, std::string>> entries = {{"m/data.pkl", pickle}};
    std::string ones;
    for (size_t i = 0; i < floats; ++i) ones += "\0\0\x80\x3F"s;
    for (size_t i = 0; i < storages; ++i) entries.emplace_back("m/data/" + std::to_string(i), ones);
    testing::write_bytes(folder_ / "a.pt", testing::zip_bytes(entries));
    return folder_ / "a.pt";
  }
  void expect_refused(const std::string& pickle, std::initializer_list<std::string_view> parts) {
    const Path path = write(pickle);
    EXPECT_TRUE(is_torch_file(path));
    expect_error(ErrorKind::kData, parts, [&] { load(open_torch_model(path)); });
  }
  testing::TemporaryDirectory folder_;
};

void expect_golden(const Path& checkpoint, const Path& golden) {
  const LoadedModel loaded = load(open_torch_model(checkpoint));
  EXPECT_EQ(loaded.config.architecture(), "classic");
  EXPECT_EQ(loaded.layout, "tutorial");
  testing::expect_golden_logits(*loaded.model, golden);
}

TEST_F(TorchCheckpoint, OfTheTutorialsProgram) {
  const auto folder = testing::test_data("models/seed-tiny");
  if (!folder) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  expect_golden(*folder / "checkpoint_step_00000019.pt", *folder / "golden_logits.safetensors");
  expect_golden(*folder / "old_without_proj.pt", *folder / "old_without_proj_logits.safetensors");
}

TEST_F(TorchCheckpoint, TutorialIsWrittenAndRead) {
  Model model(small_config("classic"));
  const Path path = folder_ / "step.pt";
  write_torch_tutorial(path, model.transformer.config(), rows_of(model.parameters));
  const LoadedModel loaded = load(open_torch_model(path));
  EXPECT_TRUE(loaded.config == model.transformer.config());
  testing::expect_same_bits("logits", logits_of(*loaded.model), logits_of(model.transformer));
  // What load_state_dict wants besides the weights.
  const TorchFile file(path);
  const PickleValue& state = *file.root().find("model_state_dict");
  EXPECT_EQ(file.tensor(*state.find("pos_idxs"), "").dtype, DType::kI64);
  EXPECT_EQ(file.tensor(*state.find("attn_blocks.1.attn.heads.2.tril"), "").shape, (Shape{8, 8}));
  EXPECT_EQ(file.root().find("config")->find("n_blocks")->integer, 2);
}

TEST_F(TorchCheckpoint, NanoGptIsWrittenAndRead) {
  const Path path = folder_ / "ckpt.pt";
  for (const bool bias : {true, false}) {
    Model model(nanogpt_config(bias));
    write_torch_nanogpt(path, model.transformer.config(), rows_of(model.parameters));
    const LoadedModel loaded = load(open_torch_model(path));
    EXPECT_EQ(loaded.layout, "nanogpt");
    EXPECT_TRUE(loaded.config == model.transformer.config());
    testing::expect_same_bits("logits", logits_of(*loaded.model), logits_of(model.transformer));
  }
  TransformerConfig c = nanogpt_config(false);
  c.mlp_bias = true;  // the other biases are zeros there
  Model model(c);
  write_torch_nanogpt(path, c, rows_of(model.parameters));
  const LoadedModel loaded = load(open_torch_model(path));
  EXPECT_TRUE(loaded.config.qkv_bias);
  testing::expect_same_bits("logits", logits_of(*loaded.model), logits_of(model.transformer));
}

TEST_F(TorchCheckpoint, WhatTheOtherProgramCannotComputeIsRefused) {
  const auto refuse = [&](auto&& write, const TransformerConfig& config, std::string_view part) {
    Model model(config.resolved());
    expect_error(ErrorKind::kUse, {part, "safetensors"},
                 [&] { write(folder_ / "x.pt", model.transformer.config(), rows_of(model.parameters)); });
    EXPECT_FALSE(std::filesystem::exists(folder_ / "x.pt"));
  };
  refuse(write_torch_nanogpt, small_config("gpt"), "exact GELU (erf)");
  refuse(write_torch_nanogpt, small_config("classic"), "classic");
  TransformerConfig c = nanogpt_config(true);
  c.mlp_hidden = 40;
  refuse(write_torch_nanogpt, c, "40 of 12");
  c = nanogpt_config(true);
  c.tied_head = false;
  refuse(write_torch_nanogpt, c, "custom");
  refuse(write_torch_tutorial, small_config("gpt"), "gpt");
  c = small_config("classic");
  c.kv_heads = 1;
  refuse(write_torch_tutorial, c, "3 and 1 of 4");
  c = small_config("classic");
  c.norm.epsilon = 1e-6f;
  refuse(write_torch_tutorial, c, "1e-5");
}

// Names with the prefixes of wrappers, masks of old versions, tensors that are transposed views.
TEST_F(TorchCheckpoint, NanoGptOfOldVersions) {
  Model model(nanogpt_config(true));
  const Path path = folder_ / "ckpt.pt";
  const TransformerConfig& c = model.transformer.config();
  TorchWriter writer(path);
  PickleWriter& out = writer.values();
  out.begin_dictionary();
  out.text("model");
  out.begin_dictionary();
  for (StreamedArray& array : arrays_to_write(nanogpt_layout(c), rows_of(model.parameters))) {
    out.text("_orig_mod." + array.name);
    writer.tensor(std::move(array));
  }
  out.text("_orig_mod.transformer.h.0.attn.bias");
  writer.tensor({.name = "mask", .shape = {8, 8}, .read = [](int64_t, int64_t count, float* x) {
                   std::fill_n(x, 8 * count, 1.0f);
                 }});
  out.end_dictionary();
  out.text("model_args");
  out.begin_dictionary();
  for (const auto& [key, size] :
       {std::pair("n_layer", c.layers), std::pair("n_head", c.heads), std::pair("n_embd", c.channels),
        std::pair("block_size", c.context), std::pair("vocab_size", c.vocabulary)}) {
    out.text(key);
    out.integer(size);
  }
  out.end_dictionary();
  out.end_dictionary();
  writer.finish();
  testing::expect_same_bits("logits", logits_of(*load(open_torch_model(path)).model),
                            logits_of(model.transformer));
}

// pickle operations of one tensor under "name", of the storage `key`, (rows, columns) with these strides.
std::string tensor(const std::string& name, const std::string& key, uint8_t rows, uint8_t columns,
                   uint8_t stride0, uint8_t stride1) {
  const auto text = [](const std::string& t) { return "X"s + static_cast<char>(t.size()) + "\0\0\0"s + t; };
  const auto number = [](uint8_t n) { return "K"s + static_cast<char>(n); };
  return text(name) + "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" +
         text(key) + text("cpu") + number(64) + "tQK\0"s + number(rows) + number(columns) + "\x86" +
         number(stride0) + number(stride1) + "\x86\x89NtR";
}

TEST_F(TorchCheckpoint, ViewsAreReadByTheirStrides) {
  std::vector<std::pair<std::string, std::string>> entries;
  std::string counting;
  for (int i = 0; i < 64; ++i) {
    const auto value = static_cast<float>(i);
    counting.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  entries.emplace_back("m/data.pkl",
                       "\x80\x02}(" + tensor("a", "0", 2, 3, 3, 1) + tensor("b", "0", 3, 2, 1, 3) + "u.");
  entries.emplace_back("m/data/0", counting);
  testing::write_bytes(folder_ / "a.pt", testing::zip_bytes(entries));
  const StoredArrays arrays = torch_arrays(folder_ / "a.pt");
  ASSERT_EQ(arrays.arrays.size(), 2u);
  EXPECT_TRUE(arrays.arrays[0].strides.empty());
  std::vector<float> b(6);
  read_f32(arrays.arrays[1], 0, 6, b.data());
  EXPECT_EQ(b, (std::vector<float>{0, 3, 1, 4, 2, 5}));
}

TEST_F(TorchCheckpoint, OtherFilesAreNamed) {
  const auto dictionary = [](const std::string& items) { return "\x80\x02}(" + items + "u."; };
  expect_refused("\x80\x02N.", {"a.pt", "no tensors", "model.state_dict()"});
  expect_refused(dictionary(""), {"a.pt", "no tensors"});
  expect_refused(dictionary(tensor("fc1.weight", "0", 2, 2, 2, 1)), {"no model that is read", "fc1.weight"});
  expect_refused(dictionary(tensor("transformer.wte.weight", "0", 2, 2, 2, 1)), {"config.json"});
  expect_refused(dictionary(tensor("model.embed_tokens.weight", "0", 2, 2, 2, 1)), {"config.json"});
  expect_refused(dictionary(tensor("token_embed.weight", "0", 2, 2, 2, 1)),
                 {"position_embed.weight is missing"});
  expect_refused(
      "\x80\x02"
      "c__main__\nGPT\n)\x81}b.",
      {"Python class __main__.GPT", "state_dict()"});
  std::string many;
  for (int i = 0; i < 40; ++i) many += tensor("w" + std::to_string(i), "0", 8, 8, 8, 1);
  expect_refused(dictionary(many), {"share storages of 256"});
}

// What would run in Python runs nothing here, and where a weight should be it is refused by name.
TEST_F(TorchCheckpoint, MaliciousPickles) {
  const std::string marker = (folder_ / "marker").string();
  const auto text = [](const std::string& t) {
    const auto size = static_cast<uint32_t>(t.size());
    return "X" + std::string(reinterpret_cast<const char*>(&size), 4) + t;
  };
  const std::string command = text("touch " + marker) + "\x85R";
  for (const auto& [module, function] :
       {std::pair("os", "system"), std::pair("posix", "system"), std::pair("subprocess", "getoutput"),
        std::pair("builtins", "eval"), std::pair("builtins", "exec"), std::pair("__builtin__", "eval")}) {
    const std::string call = fmt::format("c{}\n{}\n", module, function);
    expect_refused("\x80\x02"s + call + command + ".",
                   {fmt::format("the Python class {}.{}, which is not run", module, function)});
    expect_refused(
        "\x80\x02}("s + text("token_embed.weight") + call + command + tensor("x", "0", 2, 2, 2, 1) + "u.",
        {"\"token_embed.weight\" is no plain tensor"});
    // As the state of an object, among the arguments of a tensor, as what is called.
    expect_refused("\x80\x02"s + "cm\nC\n)\x81" + call + command + "b.", {"m.C"});
    expect_refused("\x80\x02}("s + text("a") + "ctorch._utils\n_rebuild_tensor_v2\n(" + call + command +
                       "K\0)"s + ")\x89NtRu.",
                   {"names no storage"});
    expect_refused("\x80\x02"s + call + command + ")R.", {"no tensors"});
  }
  expect_refused("\x80\x02}q\0h\0h\0s."s, {"no tensors"});             // contains itself, as its own key
  expect_refused("\x80\x02}q\0X\5\0\0\0modelh\0s."s, {"no tensors"});  // and under "model"
  expect_refused("\x80\x02Nr\xff\xff\xff\x7f."s, {"damaged"});
  EXPECT_FALSE(std::filesystem::exists(marker));
}

TEST_F(TorchCheckpoint, DamagedTensorsAreNoticed) {
  Model model(small_config("classic"));
  write_torch_tutorial(folder_ / "a.pt", model.transformer.config(), rows_of(model.parameters));
  std::string bytes = read_text_file(folder_ / "a.pt");
  bytes[bytes.size() / 2] ^= 1;
  testing::write_bytes(folder_ / "b.pt", bytes);
  expect_error(ErrorKind::kData, {"b.pt", "checksum"}, [&] { open_torch_model(folder_ / "b.pt"); });
}

// Damaged pickles of a whole checkpoint: an Error, or a model of sizes that the file holds.
TEST_F(TorchCheckpoint, DamagedCheckpoints) {
  Model model(nanogpt_config(false));
  write_torch_nanogpt(folder_ / "whole.pt", model.transformer.config(), rows_of(model.parameters));
  const ZipFile whole(folder_ / "whole.pt");
  std::vector<std::pair<std::string, std::string>> entries;
  size_t pickle = 0;
  for (const ZipEntry& entry : whole.entries()) {
    if (entry.name.ends_with("data.pkl")) pickle = entries.size();
    entries.emplace_back(entry.name, entry.bytes);
  }
  const std::string words = entries[pickle].second;
  int read = 0;
  constexpr int kFiles = 400;
  for (uint64_t i = 0; i < kFiles; ++i) {
    const RandomStream random(12, "checkpoint", i);
    entries[pickle].second = i % 2 == 0
                                 ? testing::mutate(words, random, "KJX}(tQRcu")
                                 : testing::mutate_number(words, random.below(9, words.size()), 1, random);
    testing::write_bytes(folder_ / "a.pt", testing::zip_bytes(entries));
    read += testing::ends_well([&] { logits_of(*load(open_torch_model(folder_ / "a.pt")).model); });
  }
  EXPECT_GT(read, 20);
  EXPECT_LT(read, kFiles * 3 / 4);
}

}  // namespace
}  // namespace tril
