// A model of a few thousand weights whose distributions are not flat.
#pragma once

#include <gtest/gtest.h>

#include <span>

#include "tril/nn/transformer.h"

namespace tril::testing {

inline TransformerConfig small_config(const char* architecture, int64_t window = 0) {
  TransformerConfig c{.vocabulary = 23, .context = 12, .channels = 16, .layers = 2, .heads = 2};
  c.set_architecture(architecture);
  c.attention.window = window;
  return c;
}

struct SmallModel {
  explicit SmallModel(const TransformerConfig& config) : model(config) {
    parameters.initialize(7);
    for (const auto& item : parameters.items())
      for (int64_t i = 0; i < item.weight->value.elements(); ++i) item.weight->value.f32()[i] *= 5;
  }
  Transformer model;
  Parameters parameters{model, Parameters::Memory::kValues};
};

// The logits of a token, computed in two ways.
inline void expect_close(std::span<const float> actual, std::span<const float> expected) {
  ASSERT_EQ(actual.size(), 23u);
  ASSERT_EQ(expected.size(), 23u);
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 1e-5) << i;
}

}  // namespace tril::testing
