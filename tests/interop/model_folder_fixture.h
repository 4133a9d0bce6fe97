// A folder for a model, models with values in every parameter, and their logits.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>

#include "tests/support/compare.h"
#include "tril/containers/json.h"
#include "tril/containers/safetensors.h"
#include "tril/interop/model_folder.h"
#include "tril/nn/session.h"

namespace tril::testing {

inline constexpr std::string_view kText = "the quick brown fox jumps over the lazy dog. the dog sleeps. ";

inline TransformerConfig small_config(std::string_view architecture, int64_t vocabulary) {
  TransformerConfig c;
  c.set_architecture(architecture);
  c.vocabulary = vocabulary;
  c.context = 16;
  c.channels = 24;
  c.layers = 2;
  c.heads = 3;
  return c.resolved();
}

class ModelFolderTest : public ::testing::Test {
 protected:
  ModelFolderTest() : tokenizer_(Tokenizer::characters({&kText, 1}, true)) {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::temp_directory_path() / fmt::format("tril-test-{}-{}", ::getpid(), info->name());
    std::filesystem::create_directories(root_);
  }
  ~ModelFolderTest() override { remove_tree(root_); }

  Path folder() const { return root_ / "model"; }
  Path weights() const { return folder() / "model.safetensors"; }
  Path config_path() const { return folder() / "config.json"; }

  // A model with values in every parameter, biases included.
  struct Model {
    explicit Model(const TransformerConfig& config)
        : transformer(config), parameters(transformer, Parameters::Memory::kValues) {
      parameters.initialize(3);
      uint64_t n = 0;
      for (const auto& item : parameters.items()) {
        float* const w = item.weight->value.f32();
        const RandomStream random(9, "values", n++);
        for (int64_t i = 0; i < item.weight->value.elements(); ++i)
          w[i] += 0.1f * static_cast<float>(random.normal(static_cast<uint64_t>(i)));
      }
    }
    Transformer transformer;
    Parameters parameters;
  };

  std::unique_ptr<Model> saved(const TransformerConfig& config) {
    auto model = std::make_unique<Model>(config);
    save_model_folder(folder(), config, model->parameters, tokenizer_);
    return model;
  }

  static std::vector<float> logits(Transformer& model) {
    const std::vector<int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    SerialExecutor executor;
    Session<Transformer> session(model, executor, 1, 11, false);
    std::vector<float> out(static_cast<size_t>(11 * model.config().vocabulary));
    model.logits(session.context(), {.batch = 1, .time = 11, .tokens = tokens.data()}, session.state(),
                 View(out.data(), {11, model.config().vocabulary}));
    return out;
  }

  void expect_round_trip(const TransformerConfig& config, const std::string& layout) {
    remove_tree(folder());
    const auto model = saved(config);
    const LoadedModel loaded = load_model(folder());
    EXPECT_EQ(loaded.layout, layout);
    EXPECT_EQ(loaded.config.architecture(), config.architecture());
    EXPECT_EQ(loaded.config.dropout, config.dropout);
    EXPECT_EQ(loaded.config.activation, config.activation);
    ASSERT_EQ(loaded.parameters->items().size(), model->parameters.items().size());
    expect_same_bits("logits", logits(*loaded.model), logits(model->transformer));
    ASSERT_NE(loaded.tokenizer, nullptr);
    EXPECT_EQ(loaded.tokenizer->fingerprint(), tokenizer_.fingerprint());
  }

  // The tensors of the weights file, for writing it again with changes.
  struct Tensors {
    explicit Tensors(const Path& path) : file(path) {
      for (const NamedArray& array : file.arrays()) {
        Tensor copy(shape_of(array));
        std::copy_n(array.bytes.data(), array.bytes.size(), copy.view().data);
        names.push_back(array.name);
        tensors.push_back(std::move(copy));
      }
    }
    static Shape shape_of(const NamedArray& array) {
      return array.shape.size() == 1 ? Shape{array.shape[0]} : Shape{array.shape[0], array.shape[1]};
    }
    size_t index(const std::string& name) const {
      return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    }
    void remove(const std::string& name) {
      const auto at = static_cast<std::ptrdiff_t>(index(name));
      names.erase(names.begin() + at);
      tensors.erase(tensors.begin() + at);
    }
    void add(const std::string& name, const Shape& shape, float value = 0) {
      names.push_back(name);
      tensors.emplace_back(shape);
      std::fill_n(tensors.back().f32(), shape.elements(), value);
    }
    void write(const Path& path) const {
      std::vector<NamedView> arrays;
      for (size_t i = 0; i < names.size(); ++i) arrays.push_back({names[i], tensors[i].view()});
      write_safetensors(path, arrays);
    }
    SafetensorsFile file;
    std::vector<std::string> names;
    std::vector<Tensor> tensors;
  };

  void change_weights(const std::function<void(Tensors&)>& change) {
    Tensors tensors(weights());
    change(tensors);
    tensors.write(weights());
  }
  void change_config(const std::function<void(Json&)>& change) {
    Json json = parse_json(read_text_file(config_path()));
    change(json);
    write_file_atomic(config_path(), to_text(json));
  }
  void expect_refused(const std::vector<std::string>& parts) {
    try {
      load_model(folder());
      ADD_FAILURE() << "nothing was thrown; expected: " << parts[0];
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kData) << error.what();
      for (const std::string& part : parts)
        EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
            << part << " is not in: " << error.what();
    }
  }
  TransformerConfig gpt() const { return small_config("gpt", tokenizer_.vocabulary()); }

  Path root_;
  Tokenizer tokenizer_;
};

}  // namespace tril::testing
