// Models whose weights are stored in fewer bits, or lie in memory of somebody else.
#include <gtest/gtest.h>

#include <cstring>

#include "tests/nn/model_fixture.h"
#include "tests/support/expect_error.h"
#include "tril/kernels/matmul_int8.h"
#include "tril/kernels/stored_rows.h"
#include "tril/nn/key_value_cache.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::expect_near;
using testing::RandomBatch;

constexpr int64_t kVocabulary = 40;
constexpr DType kTypes[] = {DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};

TransformerConfig config_of(std::string_view arch) {
  TransformerConfig c{
      .vocabulary = kVocabulary, .context = 40, .channels = 64, .layers = 2, .heads = 4, .mlp_hidden = 96};
  c.set_architecture(arch);
  if (arch == "llama") c.kv_heads = 2;
  c.tied_head = arch != "classic";
  return c;
}

// A model for use. With larger weights the logits vary more by the rounding of x.
struct Model : testing::Model {
  explicit Model(const TransformerConfig& config, Parameters::Memory memory = Parameters::Memory::kValues)
      : testing::Model(config, memory, 0.15) {}
};

// Logits (T, V) of all tokens at once.
std::vector<float> at_once(Model& model, Executor& executor, const RandomBatch& data) {
  Session<Transformer> session(model.transformer, executor, 1, data.batch.time, false);
  std::vector<float> out(static_cast<size_t>(data.batch.time * kVocabulary));
  model.transformer.logits(session.context(), data.batch, session.state(),
                           View(out.data(), {data.batch.time, kVocabulary}));
  return out;
}

// The same, token by token.
std::vector<float> one_by_one(Model& model, Executor& executor, const RandomBatch& data) {
  KeyValueCache cache(model.transformer.config(), {});
  AppendSession session(model.transformer, executor, cache, 1);
  Tensor logits({1, kVocabulary});
  std::vector<float> out;
  for (const int32_t token : data.tokens) {
    model.transformer.append(session.context(), {.batch = 1, .time = 1, .tokens = &token}, nullptr, cache,
                             session.state(), logits);
    out.insert(out.end(), logits.f32(), logits.f32() + kVocabulary);
  }
  return out;
}

TEST(StoredWeights, GiveTheLogitsOfTheirFloats) {
  ThreadPool pool(2);
  const RandomBatch data(1, 20, kVocabulary);
  for (const char* const arch : {"gpt", "llama", "classic"}) {
    for (const DType type : kTypes) {
      const std::string what = fmt::format("{} {}", arch, dtype_info(type).name);
      Model floats(config_of(arch)), stored(config_of(arch));
      testing::round_products(floats.parameters, type);
      stored.parameters.convert(type, pool);
      ASSERT_LT(stored.parameters.bytes(), floats.parameters.bytes());
      EXPECT_EQ(stored.transformer.token_embedding.value.dtype, type);
      EXPECT_EQ(stored.transformer.ln_final.weight.value.dtype, DType::kF32);
      const std::vector<float> expected = at_once(floats, pool, data);
      const bool rounds_x = is_quantized(type) && has_int8_products();
      expect_near(what + " at once", at_once(stored, pool, data), expected, rounds_x ? 6e-2 : 1e-5);
      expect_near(what + " one by one", one_by_one(stored, pool, data), expected,
                  type == DType::kQ8_0 ? 2e-4
                  : is_quantized(type) ? 5e-3
                                       : 1e-5);
    }
  }
}

TEST(StoredWeights, SameBitsForAnyNumberOfThreads) {
  const RandomBatch data(1, 12, kVocabulary);
  for (const DType type : kTypes) {
    Model model(config_of("llama"));
    SerialExecutor serial;
    model.parameters.convert(type, serial);
    testing::expect_same_bits("one by one", one_by_one(model, serial, data), [&] {
      ThreadPool pool(3);
      return one_by_one(model, pool, data);
    }());
  }
}

TEST(StoredWeights, ThereAndBackAreTheFloatsOfTheType) {
  SerialExecutor serial;
  Model floats(config_of("gpt")), stored(config_of("gpt"));
  testing::round_products(floats.parameters, DType::kQ8_0);
  stored.parameters.convert(DType::kQ8_0, serial);
  stored.parameters.convert(DType::kF32, serial);
  for (size_t i = 0; i < floats.parameters.items().size(); ++i) {
    const View a = stored.parameters.items()[i].weight->value, b = floats.parameters.items()[i].weight->value;
    ASSERT_EQ(a.dtype, DType::kF32);
    ASSERT_EQ(std::memcmp(a.data, b.data, static_cast<size_t>(4 * b.elements())), 0);
  }
}

TEST(StoredWeights, RowsThatAreNoWholeBlocksStay) {
  SerialExecutor serial;
  TransformerConfig config = config_of("gpt");
  config.mlp_hidden = 80;
  Model model(config);
  model.parameters.convert(DType::kQ4_0, serial);
  EXPECT_EQ(model.parameters.find("blocks.0.mlp.hidden.weight").value.dtype, DType::kQ4_0);     // (80, 64)
  EXPECT_EQ(model.parameters.find("blocks.0.mlp.projection.weight").value.dtype, DType::kF32);  // (64, 80)
  EXPECT_EQ(model.parameters.find("position_embedding.weight").value.dtype, DType::kF32);
}

TEST(StoredWeights, BoundValuesAreReadWhereTheyLie) {
  SerialExecutor serial;
  const RandomBatch data(1, 9, kVocabulary);
  Model owner(config_of("llama")), borrower(config_of("llama"), Parameters::Memory::kUnbound);
  owner.parameters.convert(DType::kQ8_0, serial);
  for (size_t i = 0; i < owner.parameters.items().size(); ++i)
    borrower.parameters.bind(borrower.parameters.items()[i], owner.parameters.items()[i].weight->value);
  EXPECT_EQ(borrower.transformer.token_embedding.value.data, owner.transformer.token_embedding.value.data);
  testing::expect_same_bits("bound", at_once(borrower, serial, data), at_once(owner, serial, data));
}

TEST(StoredWeights, WhatCannotBeIsRefused) {
  SerialExecutor serial;
  Model model(config_of("gpt"));
  expect_error(ErrorKind::kUse, {"i32", "do not multiply"},
               [&] { model.parameters.convert(DType::kI32, serial); });
  testing::Model training(config_of("gpt"));
  expect_error(ErrorKind::kUse, {"training needs weights of f32", "q8_0"},
               [&] { training.parameters.convert(DType::kQ8_0, serial); });
  const Parameters::Item& norm = model.parameters.items()[2];
  ASSERT_EQ(norm.info.name, "blocks.0.ln1.weight");
  std::vector<std::byte> memory(1024);
  expect_error(ErrorKind::kUse, {"blocks.0.ln1.weight", "bf16"},
               [&] { model.parameters.bind(norm, ConstView(memory.data(), DType::kBF16, {64})); });
  expect_error(ErrorKind::kUse, {"blocks.0.ln1.weight", "(32)", "(64)"},
               [&] { model.parameters.bind(norm, ConstView(memory.data(), DType::kF32, {32})); });
  // A number that the type cannot hold leaves the values as they were.
  model.parameters.find("blocks.1.mlp.hidden.weight").value.f32()[5] = 1e9f;
  expect_error(ErrorKind::kNumerics, {"q8_0"}, [&] { model.parameters.convert(DType::kQ8_0, serial); });
  EXPECT_EQ(model.transformer.token_embedding.value.dtype, DType::kF32);
}

}  // namespace
}  // namespace tril
