// llama2.c's files: a real one, all versions written and read, and damaged ones.
#include "tril/interop/llama2_c.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/containers/safetensors_bytes.h"
#include "tests/interop/interop_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_data.h"
#include "tril/generate/generate.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::load;
using testing::logits_of;
using testing::Model;

TransformerConfig small_config(bool tied, int64_t kv_heads = 2) {
  TransformerConfig c;
  c.set_architecture("llama");
  c.vocabulary = 17;
  c.context = 10;
  c.channels = 24;
  c.layers = 2;
  c.heads = 4;
  c.kv_heads = kv_heads;
  c.mlp_hidden = 40;
  c.tied_head = tied;
  return c.resolved();
}

class Llama2C : public ::testing::Test {
 protected:
  Path written(const Model& model, Llama2CVersion version) {
    const Path path = folder_ / "model.bin";
    write_llama2_c(path, version, model.transformer.config(), rows_of(model.parameters), nullptr);
    return path;
  }
  testing::TemporaryDirectory folder_;
};

// In groups of 8, the largest power of two that divides the rows' 24 and 40 elements: scale = max|x| / 127
// and round(x / scale).
void round_to_groups(std::span<float> x) {
  for (; !x.empty(); x = x.subspan(8)) {
    float most = 0;
    for (const float value : x.first(8)) most = std::max(most, std::abs(value));
    const float scale = most / 127;
    for (float& value : x.first(8)) value = static_cast<float>(std::lrint(value / scale)) * scale;
  }
}

TEST_F(Llama2C, ComputesWhatTheReferenceDid) {
  const auto models = testing::test_data("models");
  if (!models) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  const Path path = *models / "stories260K.bin";
  EXPECT_TRUE(is_llama2_c_file(path));
  EXPECT_FALSE(is_llama2_c_file(*models / "tok512.bin"));
  const LoadedModel loaded = load(open_llama2_c_model(path));
  EXPECT_EQ(loaded.config.architecture(), "llama");
  EXPECT_EQ(loaded.config.kv_heads, 4);
  ASSERT_NE(loaded.tokenizer, nullptr);  // tok512.bin, by its name
  testing::expect_golden_logits(*loaded.model, *models / "stories260K-hf/golden_logits.safetensors");
}

TEST_F(Llama2C, WritesTheGreedyTextToTheLetter) {
  const auto models = testing::test_data("models");
  if (!models) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  const LoadedModel loaded = load(open_llama2_c_model(*models / "stories260K.bin"));
  ThreadPool pool(2);
  const std::vector<int32_t> begin = {loaded.tokenizer->begin_of_text()};
  const std::vector<int32_t> ids = generate(*loaded.model, pool, begin, 200, {.temperature = 0});
  std::string text = loaded.tokenizer->decode(ids),
              expected = read_text_file(*testing::test_data("cases/stories260K_greedy200.txt"));
  while (!expected.empty() && expected.back() == '\n') expected.pop_back();
  ASSERT_GT(expected.size(), 300u);
  EXPECT_EQ(text.substr(0, expected.size()), expected);
  EXPECT_LE(text.size(), expected.size() + 1);
}

TEST_F(Llama2C, EveryVersionIsWrittenAndRead) {
  for (const bool tied : {true, false}) {
    for (const int64_t kv_heads : {1, 2, 4}) {
      Model model(small_config(tied, kv_heads));
      const std::vector<float> expected = logits_of(model.transformer);
      for (const Llama2CVersion version : {Llama2CVersion::kV0, Llama2CVersion::kV1}) {
        const Path path = written(model, version);
        EXPECT_TRUE(is_llama2_c_file(path));
        const LoadedModel loaded = load(open_llama2_c_model(path));
        EXPECT_TRUE(loaded.config == model.transformer.config());
        testing::expect_same_bits("logits", logits_of(*loaded.model), expected);
      }
      const LoadedModel rounded = load(open_llama2_c_model(written(model, Llama2CVersion::kV2)));
      EXPECT_TRUE(rounded.config == model.transformer.config());
      for (const Parameters::Item& item : model.parameters.items()) {
        if (item.info.shape.rank() == 2) round_to_groups(testing::values_of(item));
        const ConstView read = rounded.parameters->find(item.info.name).value;
        const std::span<const float> values = testing::values_of(item);
        testing::expect_same_bits(item.info.name, {read.f32(), values.size()}, values);
      }
    }
  }
}

TEST_F(Llama2C, InterleavedModelsNeedNoTurning) {
  TransformerConfig c = small_config(true);
  c.attention.rope.interleaved = true;
  Model model(c);
  const LoadedModel loaded = load(open_llama2_c_model(written(model, Llama2CVersion::kV1)));
  EXPECT_FALSE(loaded.config.attention.rope.interleaved);
  testing::expect_near("logits", logits_of(*loaded.model), logits_of(model.transformer), 1e-5);
}

// The bytes themselves, against the layout that run.c reads: not only against tril's own reader.
TEST_F(Llama2C, TheBytesAreWhereTheOtherProgramReadsThem) {
  Model model(small_config(false));
  const std::string old = read_text_file(written(model, Llama2CVersion::kV0));
  const auto float_at = [](const std::string& bytes, size_t at) {
    float value = 0;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  };
  int32_t header[7];
  std::memcpy(header, old.data(), sizeof header);
  EXPECT_EQ(std::vector<int32_t>(header, header + 7), (std::vector<int32_t>{24, 40, 2, 4, 2, -17, 10}));
  const auto value = [&](const char* name) { return model.parameters.find(name).value.f32(); };
  EXPECT_EQ(float_at(old, 28), value("token_embedding.weight")[0]);
  size_t at = 28 + 4 * 17 * 24;
  EXPECT_EQ(float_at(old, at + 4 * 24), value("blocks.1.ln1.weight")[0]);
  at += 4 * 2 * 24;
  // Query rows 0, 1, 2 of the file are rows 0, 3, 1 of a head of six whose pairs are its halves.
  const float* const qkv = value("blocks.0.attention.qkv.weight");
  EXPECT_EQ(float_at(old, at), qkv[0]);
  EXPECT_EQ(float_at(old, at + 4 * 24), qkv[3 * 24]);
  EXPECT_EQ(float_at(old, at + 4 * 2 * 24), qkv[24]);
  at += 4 * 2 * 24 * 24;
  EXPECT_EQ(float_at(old, at), qkv[24 * 24]);  // the first key
  at += 4 * 2 * (12 * 24 * 2);
  EXPECT_EQ(float_at(old, at), value("blocks.0.attention.projection.weight")[0]);
  at += 4 * 2 * 24 * 24;
  EXPECT_EQ(float_at(old, at), value("blocks.0.ln2.weight")[0]);
  at += 4 * 2 * 24;
  EXPECT_EQ(float_at(old, at), value("blocks.0.mlp.gate.weight")[0]);
  EXPECT_EQ(float_at(old, at + 4 * 2 * 24 * 40), value("blocks.0.mlp.projection.weight")[0]);
  EXPECT_EQ(float_at(old, at + 8 * 2 * 24 * 40), value("blocks.0.mlp.hidden.weight")[0]);
  at += 4 * 2 * 3 * 24 * 40;
  EXPECT_EQ(float_at(old, at), value("ln_final.weight")[0]);
  at += 4 * 24;
  EXPECT_EQ(float_at(old, at), 1.0f);                                 // cosine of position 0
  EXPECT_FLOAT_EQ(float_at(old, at + 4 * 3), 0.5403023f);             // of position 1, pair 0
  EXPECT_FLOAT_EQ(float_at(old, at + 4 * (10 * 3 + 3)), 0.8414710f);  // its sine
  at += 4 * 2 * 10 * 3;
  EXPECT_EQ(float_at(old, at), value("lm_head.weight")[0]);
  EXPECT_EQ(old.size(), at + 4 * 17 * 24);

  const std::string groups = read_text_file(written(model, Llama2CVersion::kV2));
  EXPECT_EQ(groups.substr(0, 4), "24ka");
  EXPECT_EQ(groups[4], 2);
  EXPECT_EQ(groups[36], 0);  // the head is its own
  EXPECT_EQ(groups[37], 8);  // 64 and 32, 16 do not divide 24
  EXPECT_EQ(float_at(groups, 256), value("blocks.0.ln1.weight")[0]);
  EXPECT_EQ(float_at(groups, 256 + 4 * 4 * 24), value("ln_final.weight")[0]);
  const size_t tokens = 256 + 4 * 5 * 24;
  const float scale = float_at(groups, tokens + 17 * 24);
  std::vector<float> first(value("token_embedding.weight"), value("token_embedding.weight") + 8);
  round_to_groups(first);
  EXPECT_EQ(static_cast<float>(static_cast<int8_t>(groups[tokens])) * scale, first[0]);
}

// Groups may be longer than a row, and of zeros.
TEST_F(Llama2C, GroupsOfAnySize) {
  Model model(small_config(true));
  float* const table = model.parameters.find("token_embedding.weight").value.f32();
  std::fill_n(table, 17 * 24, 0.0f);
  const LoadedModel loaded = load(open_llama2_c_model(written(model, Llama2CVersion::kV2)));
  testing::expect_all_zero("table", {loaded.parameters->find("token_embedding.weight").value.f32(), 17 * 24});
  table[5] = NAN;
  expect_error(ErrorKind::kNumerics, {"embed_tokens", "nan"}, [&] { written(model, Llama2CVersion::kV2); });
  // By hand: one layer, groups of 12 in rows of 4.
  std::string bytes(256, '\0');
  const int32_t header[] = {0x616b3432, 2, 4, 6, 1, 2, 2, 6, 3};
  std::memcpy(bytes.data(), header, sizeof header);
  bytes[36] = 1;
  bytes[37] = 12;
  bytes.append(3 * 4 * sizeof(float), '\0');
  for (const size_t elements : {24, 16, 16, 16, 16, 24, 24, 24}) {
    bytes.append(elements, '\x02');
    for (size_t g = 0; g < elements / 12; ++g) bytes.append("\x00\x00\x00\x3F", 4);  // 0.5
  }
  testing::write_bytes(folder_ / "a.bin", bytes);
  expect_error(ErrorKind::kData, {"a.bin", "groups of 12"}, [&] { open_llama2_c_model(folder_ / "a.bin"); });
  bytes = bytes.substr(0, 256 + 3 * 4 * sizeof(float));
  bytes[37] = 8;
  for (const size_t elements : {24, 16, 16, 16, 16, 24, 24, 24}) {
    bytes.append(elements, '\x02');
    for (size_t g = 0; g < elements / 8; ++g) bytes.append("\x00\x00\x00\x3F", 4);
  }
  testing::write_bytes(folder_ / "a.bin", bytes);
  const LoadedModel small = load(open_llama2_c_model(folder_ / "a.bin"));
  EXPECT_EQ(small.parameters->find("blocks.0.mlp.gate.weight").value.f32()[23], 1.0f);
}

TEST_F(Llama2C, WhatItCannotComputeIsRefused) {
  const auto refuse = [&](const std::function<void(TransformerConfig&)>& change, std::string_view part) {
    TransformerConfig c = small_config(true);
    change(c);
    Model model(c.resolved());
    expect_error(ErrorKind::kUse, {"llama2.c computes only", part, "safetensors"},
                 [&] { written(model, Llama2CVersion::kV0); });
  };
  refuse([](TransformerConfig& c) { c.norm.epsilon = 1e-6f; }, "1e-5");
  refuse([](TransformerConfig& c) { c.attention.rope.base = 500000; }, "10000");
  refuse([](TransformerConfig& c) { c.attention.qk_norm = true; }, "QK-norm");
  refuse([](TransformerConfig& c) { c.qkv_bias = true; }, "no biases");
  refuse([](TransformerConfig& c) { c.head_size = 8; }, "channels / heads");
  refuse([](TransformerConfig& c) { c.activation = Activation::kGeGlu; }, "SwiGLU");
  refuse([](TransformerConfig& c) { c.set_architecture("gpt"); }, "RMS");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "model.bin"));
  Model model(small_config(true));
  const Tokenizer bytes = Tokenizer::bytes(true);
  expect_error(ErrorKind::kUse, {"257", "17"}, [&] {
    write_llama2_c(folder_ / "model.bin", Llama2CVersion::kV0, model.transformer.config(),
                   rows_of(model.parameters), &bytes);
  });
}

TEST_F(Llama2C, TheTokenizerGoesBeside) {
  const auto models = testing::test_data("models");
  if (!models) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  LoadedModel loaded = load(open_llama2_c_model(*models / "stories260K.bin"));
  const Path path = folder_ / "model.bin";
  write_llama2_c(path, Llama2CVersion::kV0, loaded.config, rows_of(*loaded.parameters),
                 loaded.tokenizer.get());
  const std::string ours = read_text_file(path), theirs = read_text_file(*models / "stories260K.bin");
  ASSERT_EQ(ours.size(), theirs.size());
  // All but the angles, whose last bits are another library's.
  const size_t angles = 4 * 2 * 512 * 4;
  EXPECT_EQ(ours.substr(0, ours.size() - angles), theirs.substr(0, theirs.size() - angles));
  EXPECT_EQ(read_text_file(folder_ / "tokenizer.bin"), read_text_file(*models / "tok512.bin"));
  EXPECT_EQ(load(open_llama2_c_model(path)).tokenizer->fingerprint(), loaded.tokenizer->fingerprint());
}

TEST_F(Llama2C, DamagedFiles) {
  std::vector<std::string> whole;
  for (const bool tied : {true, false}) {
    Model model(small_config(tied));
    for (const Llama2CVersion version : {Llama2CVersion::kV0, Llama2CVersion::kV1, Llama2CVersion::kV2})
      whole.push_back(read_text_file(written(model, version)));
  }
  int read = 0;
  constexpr int kFiles = 600;
  for (uint64_t i = 0; i < kFiles; ++i) {
    const RandomStream random(21, "llama2.c", i);
    const std::string& from = whole[i % whole.size()];
    const std::string bytes = i % 2 == 0 ? testing::mutate_number(from, random.below(9, 48), 4, random)
                                         : testing::mutate(from, random);
    const Path path = folder_ / "a.bin";
    testing::write_bytes(path, bytes);
    is_llama2_c_file(path);
    read += testing::ends_well([&] { load(open_llama2_c_model(path)); });
  }
  EXPECT_GT(read, 20);
  EXPECT_LT(read, kFiles * 3 / 4);
  for (const std::string& bytes : whole) {
    for (size_t size = 0; size < bytes.size(); size += size < 300 ? 11 : 4999) {
      testing::write_bytes(folder_ / "a.bin", std::string_view(bytes).substr(0, size));
      EXPECT_FALSE(testing::ends_well([&] { open_llama2_c_model(folder_ / "a.bin"); })) << size;
    }
  }
}

}  // namespace
}  // namespace tril
