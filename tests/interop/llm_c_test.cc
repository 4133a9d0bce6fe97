// llm.c's model files, and its debug state as an oracle: here of numbers that the reference transformer
// computes in double.
#include "tril/interop/llm_c.h"

#include <gtest/gtest.h>

#include <complex>

#include "tests/containers/safetensors_bytes.h"
#include "tests/interop/interop_fixture.h"
#include "tests/reference/transformer.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_directory.h"
#include "tril/tensor/quantized.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::load;
using testing::logits_of;
using testing::Model;

constexpr int64_t kPadded = 128;

TransformerConfig small_config() {
  TransformerConfig c;
  c.set_architecture("gpt");
  c.vocabulary = 11;
  c.context = 6;
  c.channels = 8;
  c.layers = 2;
  c.heads = 2;
  return c.resolved();
}

std::string header_of(std::vector<int32_t> numbers) {
  numbers.resize(256);
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int32_t)};
}

// Each kind of all layers before the next, wte padded with rows of 77, which nothing may read.
template <class Get>
std::vector<float> in_order(const TransformerConfig& c, Get&& get) {
  std::vector<float> out;
  const auto add = [&](const std::string& name) {
    const std::vector<float> values = get(name);
    out.insert(out.end(), values.begin(), values.end());
  };
  add("token_embedding.weight");
  out.resize(static_cast<size_t>(kPadded * c.channels), 77);
  add("position_embedding.weight");
  for (const char* const kind :
       {"ln1.weight", "ln1.bias", "attention.qkv.weight", "attention.qkv.bias", "attention.projection.weight",
        "attention.projection.bias", "ln2.weight", "ln2.bias", "mlp.hidden.weight", "mlp.hidden.bias",
        "mlp.projection.weight", "mlp.projection.bias"})
    for (int64_t layer = 0; layer < c.layers; ++layer) add(fmt::format("blocks.{}.{}", layer, kind));
  add("ln_final.weight");
  add("ln_final.bias");
  return out;
}

std::string bytes_of(const std::vector<float>& values, int version = 3) {
  std::string out;
  for (const float value : values) {
    if (version == 3) {
      out.append(reinterpret_cast<const char*>(&value), sizeof value);
    } else {
      const uint16_t half = bf16_of_float(value);
      out.append(reinterpret_cast<const char*>(&half), sizeof half);
    }
  }
  return out;
}

std::string file_of(const Model& model, int version) {
  const TransformerConfig& c = model.transformer.config();
  const auto values = model.values<float>();
  return header_of({20240326, version, 6, 11, 2, 2, 8, kPadded}) +
         bytes_of(in_order(c, [&](const std::string& name) { return values.at(name); }), version);
}

std::string debug_state_of(const testing::RandomBatch& batch, const std::vector<float>& logits, float loss,
                           const std::vector<float>& gradients) {
  std::string out = header_of(
      {20240327, 2, static_cast<int32_t>(batch.batch.batch), static_cast<int32_t>(batch.batch.time)});
  for (const std::vector<int32_t>* const ids : {&batch.tokens, &batch.targets})
    out.append(reinterpret_cast<const char*>(ids->data()), ids->size() * sizeof(int32_t));
  return out + bytes_of(logits) + bytes_of({loss}) + bytes_of(gradients);
}

class LlmC : public ::testing::Test {
 protected:
  Path write(const std::string& bytes) {
    testing::write_bytes(folder_ / "gpt2.bin", bytes);
    return folder_ / "gpt2.bin";
  }
  // The files damaged, mostly in a number of the first `header` bytes, and cut off.
  void expect_damage_ends_well(std::span<const std::string> whole, uint64_t header,
                               const std::function<void(const Path&)>& open) {
    int read = 0;
    constexpr int kFiles = 400;
    for (uint64_t i = 0; i < kFiles; ++i) {
      const RandomStream random(31, "llm.c", i);
      const std::string& from = whole[i % whole.size()];
      const Path path = write(i % 3 != 0 ? testing::mutate_number(from, random.below(9, header), 4, random)
                                         : testing::mutate(from, random));
      is_llm_c_file(path);
      read += testing::ends_well([&] { open(path); });
    }
    EXPECT_GT(read, 20);
    EXPECT_LT(read, kFiles * 3 / 4);
    for (const std::string& bytes : whole)
      for (size_t size = 0; size < bytes.size(); size += 997)
        EXPECT_FALSE(testing::ends_well([&] { open(write(bytes.substr(0, size))); })) << size;
  }
  testing::TemporaryDirectory folder_;
};

TEST_F(LlmC, BothVersionsAreRead) {
  Model model(small_config());
  const Path path = write(file_of(model, 3));
  EXPECT_TRUE(is_llm_c_file(path));
  const LoadedModel loaded = load(open_llm_c_model(path));
  EXPECT_EQ(loaded.layout, "llm.c");
  EXPECT_TRUE(loaded.config == model.transformer.config());
  testing::expect_same_bits("logits", logits_of(*loaded.model), logits_of(model.transformer));

  write(file_of(model, 5));
  for (const Parameters::Item& item : model.parameters.items())
    testing::round_to(DType::kBF16, testing::values_of(item));
  testing::expect_same_bits("bf16", logits_of(*load(open_llm_c_model(path)).model),
                            logits_of(model.transformer));
}

// Logits, loss and every gradient of the model file against the debug state beside it.
TEST_F(LlmC, TheDebugStateIsReproduced) {
  Model written(small_config());
  const TransformerConfig& c = written.transformer.config();
  const testing::RandomBatch batch(2, 5, c.vocabulary);
  using Complex = std::complex<double>;
  testing::ReferenceTransformer<double> reference(c, written.values<double>());
  std::vector<float> exact_logits;
  for (const auto& row : reference.logits(batch.batch)) {
    const std::vector<float> narrow = testing::convert<float>(row);
    exact_logits.insert(exact_logits.end(), narrow.begin(), narrow.end());
  }
  // Exact gradients by complex step.
  auto values = written.values<Complex>();
  std::map<std::string, std::vector<float>> gradients;
  for (const auto& [name, start] : written.values<double>()) {
    for (size_t i = 0; i < start.size(); ++i) {
      values[name][i] = {start[i], 1e-30};
      const testing::ReferenceTransformer<Complex> moved(c, values);
      gradients[name].push_back(static_cast<float>(moved.loss(batch.batch).imag() / 1e-30));
      values[name][i] = start[i];
    }
  }
  testing::write_bytes(
      folder_ / "debug_state.bin",
      debug_state_of(batch, exact_logits, static_cast<float>(reference.loss(batch.batch)),
                     in_order(c, [&](const std::string& name) { return gradients.at(name); })));

  const StoredModel stored = open_llm_c_model(write(file_of(written, 3)));
  const LlmCDebugState oracle = read_llm_c_debug_state(folder_ / "debug_state.bin", stored.config);
  check_weights(oracle.gradients.arrays, oracle.gradients.layout, c);
  ASSERT_EQ(oracle.tokens, batch.tokens);
  ASSERT_EQ(oracle.targets, batch.targets);
  Transformer model(c);
  Parameters parameters(model);
  read_weights(stored.arrays, stored.layout, parameters);
  SerialExecutor executor;
  Session<Transformer> session(model, executor, oracle.batch, oracle.time);
  const Batch same = {.batch = oracle.batch,
                      .time = oracle.time,
                      .tokens = oracle.tokens.data(),
                      .targets = oracle.targets.data(),
                      .counted_targets = oracle.batch * oracle.time};
  model.forward_backward(session.context(), same, session.state());
  EXPECT_NEAR(*session.state().loss_sum / 10, oracle.loss, 1e-6);
  std::vector<float> logits(10 * 11), expected(10 * 11);
  read_f32(oracle.logits, 0, 110, expected.data());
  model.logits(session.context(), same, session.state(), View(logits.data(), {10, 11}));
  for (size_t i = 0; i < logits.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-5) << i;
  Transformer theirs(c);
  Parameters their_gradients(theirs, Parameters::Memory::kValues);
  read_weights(oracle.gradients.arrays, oracle.gradients.layout, their_gradients);
  for (const Parameters::Item& item : parameters.items()) {
    const float* const ours = item.weight->gradient.f32();
    const float* const exact = their_gradients.find(item.info.name).value.f32();
    float most = 0;
    for (int64_t i = 0; i < item.info.shape.elements(); ++i) most = std::max(most, std::abs(exact[i]));
    EXPECT_GT(most, 0) << item.info.name;
    for (int64_t i = 0; i < item.info.shape.elements(); ++i)
      ASSERT_NEAR(ours[i], exact[i], 1e-5f * most + 1e-8f) << item.info.name << ' ' << i;
  }
}

TEST_F(LlmC, OtherFilesAreNamed) {
  Model model(small_config());
  const std::string whole = file_of(model, 3);
  const auto refuse = [&](std::vector<int32_t> numbers, const std::string& rest,
                          std::initializer_list<std::string_view> parts) {
    const Path path = write(header_of(std::move(numbers)) + rest);
    expect_error(ErrorKind::kData, parts, [&] { open_llm_c_model(path); });
  };
  const std::string arrays = whole.substr(1024);
  refuse({20240326, 1, 6, 11, 2, 2, 8, kPadded}, arrays, {"gpt2.bin", "version 1", "train_gpt2.py"});
  refuse({20240803, 3}, arrays, {"Llama 3"});
  refuse({20240326, 3, 6, 200, 2, 2, 8, kPadded}, arrays, {"200 is padded to 128"});
  refuse({20240326, 3, 6, 11, 2, 3, 8, kPadded}, arrays, {"8 channels", "3 heads"});
  // A prime: the near sizes that the message names are not looked for any far.
  refuse({20240326, 3, 6, 11, 2, 1000000, 2147483647, kPadded}, arrays, {"2147483647 channels"});
  refuse({20240326, 3, 6, 11, 2, 2, 8, 2000000000}, arrays, {"more than the"});
  refuse({20240326, 3, 2000000000, 11, 9000, 2, 8, kPadded}, arrays, {"more than the"});
  refuse({20240326, 3, 6, 11, 2, 2, 8, kPadded}, arrays + "more", {"by the sizes of its header"});
  refuse({20240326, 5, 6, 11, 2, 2, 8, kPadded}, arrays, {"by the sizes of its header"});
  expect_error(ErrorKind::kData, {"no debug state"},
               [&] { read_llm_c_debug_state(write(whole), model.transformer.config()); });
}

TEST_F(LlmC, DamagedFiles) {
  Model model(small_config());
  const std::string whole[] = {file_of(model, 3), file_of(model, 5)};
  expect_damage_ends_well(whole, 40, [](const Path& path) { load(open_llm_c_model(path)); });
}

TEST_F(LlmC, DamagedDebugStates) {
  const TransformerConfig c = small_config();
  const auto values = Model(c).values<float>();
  const std::string whole =
      debug_state_of(testing::RandomBatch(2, 5, c.vocabulary), testing::random_floats(1, 2 * 5 * 11), 2.5f,
                     in_order(c, [&](const std::string& name) { return values.at(name); }));
  expect_damage_ends_well({&whole, 1}, 24, [&](const Path& path) {
    const LlmCDebugState state = read_llm_c_debug_state(path, c);
    check_weights(state.gradients.arrays, state.gradients.layout, c);
    std::vector<float> logits(static_cast<size_t>(state.logits.shape.elements()));
    read_f32(state.logits, 0, state.logits.shape.elements(), logits.data());
  });
}

}  // namespace
}  // namespace tril
