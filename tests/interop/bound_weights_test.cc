#include "tril/interop/bound_weights.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/interop/interop_fixture.h"
#include "tests/support/temporary_directory.h"
#include "tril/interop/model_folder.h"

namespace tril {
namespace {

using testing::logits_of;
using testing::Model;
using Memory = Parameters::Memory;

TransformerConfig config_of(std::string_view arch) {
  TransformerConfig c{
      .vocabulary = 30, .context = 16, .channels = 64, .layers = 2, .heads = 4, .mlp_hidden = 96};
  c.set_architecture(arch);
  if (arch == "llama") c.kv_heads = 2;
  return c.resolved();
}

// The arrays of a file of this layout that holds the parameters as they are stored.
struct File {
  StoredArrays arrays;
  std::vector<std::vector<std::byte>> memory;

  File(const Layout& layout, const Parameters& parameters) {
    arrays.where = "file";
    for (const Parameters::Item& item : parameters.items()) {
      const View value = item.weight->value;
      const int64_t row_bytes = dtype_bytes(value.dtype, value.elements()) / value.shape[0];
      int64_t first = 0;
      for (const ArrayPart& part : layout.parts(item.info)) {
        std::vector<std::byte>& bytes = memory.emplace_back(static_cast<size_t>(part.rows * row_bytes));
        for (int64_t r = 0; r < part.rows; ++r) {
          std::memcpy(bytes.data() + row_in_array(part, r) * row_bytes, value.data + (first + r) * row_bytes,
                      static_cast<size_t>(row_bytes));
        }
        const Shape shape = value.shape.rank() == 2 ? Shape{part.rows, value.shape[1]} : Shape{part.rows};
        arrays.arrays.push_back({part.array, shape, value.dtype, bytes.data()});
        first += part.rows;
      }
    }
  }
  StoredArray& find(std::string_view name) {
    for (StoredArray& array : arrays.arrays)
      if (array.name == name) return array;
    throw std::out_of_range(std::string(name));
  }
};

TEST(BoundWeights, AreReadWhereTheyLieOrCopiedAsTheyAre) {
  SerialExecutor executor;
  for (const bool interleaved : {false, true}) {
    for (const DType type : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_1}) {
      Model source(config_of("llama"), Memory::kValues);
      if (type != DType::kF32) source.parameters.convert(type, executor);
      const Layout layout = llama_layout(source.transformer.config(), interleaved);
      File file(layout, source.parameters);
      Model bound(source.transformer.config(), Memory::kUnbound);
      bind_weights(file.arrays, layout, bound.parameters, executor);
      EXPECT_EQ(bound.transformer.token_embedding.value.data, file.find("embed_tokens.weight").data);
      EXPECT_EQ(bound.parameters.find("blocks.1.attention.qkv.weight").value.dtype, type);
      testing::expect_same_bits(fmt::format("{} {}", dtype_info(type).name, interleaved),
                                logits_of(bound.transformer), logits_of(source.transformer));
    }
  }
}

TEST(BoundWeights, PartsOfSeveralTypesBecomeFloats) {
  SerialExecutor executor;
  Model source(config_of("llama")), quantized(config_of("llama"), Memory::kValues);
  quantized.parameters.convert(DType::kQ8_0, executor);
  const Layout layout = llama_layout(source.transformer.config());
  File floats(layout, source.parameters), blocks(layout, quantized.parameters);
  floats.find("layers.0.self_attn.k_proj.weight") = blocks.find("layers.0.self_attn.k_proj.weight");
  Model bound(source.transformer.config(), Memory::kUnbound);
  bind_weights(floats.arrays, layout, bound.parameters, executor);
  EXPECT_EQ(bound.parameters.find("blocks.0.attention.qkv.weight").value.dtype, DType::kF32);
  const View value = bound.parameters.find("blocks.0.attention.qkv.weight").value;
  const View floats_of_all = source.parameters.find("blocks.0.attention.qkv.weight").value;
  std::vector<float> expected(floats_of_all.f32(), floats_of_all.f32() + 128 * 64);
  testing::round_to(DType::kQ8_0, std::span(expected).subspan(64 * 64, 32 * 64));  // the keys
  testing::expect_same_bits("queries, keys, values", {value.f32(), expected.size()}, expected);
}

TEST(BoundWeights, AFolderGivesTheSameModelEitherWay) {
  ThreadPool executor(3);
  testing::TemporaryDirectory directory;
  const std::string_view text = "abc";
  const Tokenizer tokenizer = Tokenizer::characters({&text, 1}, /*with_end_of_text=*/false);
  for (const char* const arch : {"gpt", "llama", "classic"}) {
    Model source(config_of(arch));
    const Path folder = directory.path() / arch;
    save_model_folder(folder, source.transformer.config(), source.parameters, tokenizer);
    const LoadedModel read = load_model(folder), bound = load_model_as_stored(folder, executor);
    testing::expect_same_bits(arch, logits_of(*bound.model), logits_of(*read.model));
  }
}

}  // namespace
}  // namespace tril
