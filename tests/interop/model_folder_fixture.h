// A folder for a model, written, read and spoilt.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "tests/interop/interop_fixture.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tril/containers/json.h"
#include "tril/interop/model_folder.h"

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
  ModelFolderTest() : tokenizer_(Tokenizer::characters({&kText, 1}, true)) {}

  Path folder() const { return root_ / "model"; }
  Path weights() const { return folder() / "model.safetensors"; }
  Path config_path() const { return folder() / "config.json"; }

  std::unique_ptr<Model> saved(const TransformerConfig& config) {
    auto model = std::make_unique<Model>(config);
    save_model_folder(folder(), config, model->parameters, tokenizer_);
    return model;
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
    expect_same_bits("logits", logits_of(*loaded.model), logits_of(model->transformer));
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
  void expect_refused(std::initializer_list<std::string_view> parts) {
    expect_error(ErrorKind::kData, parts, [&] { load_model(folder()); });
  }
  // With config.json changed so, and then put back.
  void expect_refused(const std::function<void(Json&)>& change,
                      std::initializer_list<std::string_view> parts) {
    const std::string good = read_text_file(config_path());
    change_config(change);
    expect_refused(parts);
    write_file_atomic(config_path(), good);
  }
  TransformerConfig gpt() const { return small_config("gpt", tokenizer_.vocabulary()); }

  TemporaryDirectory root_;
  Tokenizer tokenizer_;
};

}  // namespace tril::testing
