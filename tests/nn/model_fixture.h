// A model with its parameters and a random batch, for the tests of this folder.
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/support/compare.h"
#include "tests/support/round_to.h"
#include "tril/nn/session.h"

namespace tril::testing {

struct RandomBatch {
  std::vector<int32_t> tokens, targets, positions, documents, prefix;
  std::vector<uint8_t> mask;
  Batch batch;

  RandomBatch(int64_t b, int64_t t, int64_t vocabulary, uint64_t seed = 7) {
    const RandomStream random(seed, "batch");
    for (int64_t n = 0; n < b * t; ++n) {
      tokens.push_back(static_cast<int32_t>(
          random.below(static_cast<uint64_t>(2 * n), static_cast<uint64_t>(vocabulary))));
      targets.push_back(static_cast<int32_t>(
          random.below(static_cast<uint64_t>(2 * n + 1), static_cast<uint64_t>(vocabulary))));
    }
    batch = {
        .batch = b, .time = t, .tokens = tokens.data(), .targets = targets.data(), .counted_targets = b * t};
  }
  // Cuts each row into two documents at `cut`, with positions that start again, and one token of padding at
  // the end; masks the last target of each.
  void pack(int64_t cut) {
    batch.counted_targets = 0;
    for (int64_t n = 0; n < batch.rows(); ++n) {
      const int64_t t = n % batch.time;
      documents.push_back(t == batch.time - 1 ? -1 : static_cast<int32_t>(t >= cut));
      positions.push_back(static_cast<int32_t>(t >= cut ? t - cut : t));
      mask.push_back(t != cut - 1 && t < batch.time - 2);
      batch.counted_targets += mask.back();
    }
    batch.documents = documents.data();
    batch.positions = positions.data();
    batch.loss_mask = mask.data();
  }
  void see_prefix(std::vector<int32_t> lengths) {
    prefix = std::move(lengths);
    batch.prefix = prefix.data();
  }
};

inline std::span<float> values_of(const Parameters::Item& item) {
  return {item.weight->value.f32(), static_cast<size_t>(item.weight->value.elements())};
}

// Values spread widely enough that every part of the model matters (fresh weights leave attention nearly
// uniform).
inline void randomize(Parameters& parameters, uint64_t seed, double std_dev = 0.3) {
  for (const auto& item : parameters.items()) {
    const RandomStream random(seed, item.info.name);
    uint64_t i = 0;
    for (float& value : values_of(item))
      value = static_cast<float>(item.info.init_value + std_dev * random.normal(i++));
  }
}

// The matrices of products become floats as `type` holds them.
inline void round_products(Parameters& parameters, DType type) {
  for (const auto& item : parameters.items())
    if (item.info.product) round_to(type, values_of(item));
}

struct Model {
  Transformer transformer;
  Parameters parameters;
  explicit Model(const TransformerConfig& config,
                 Parameters::Memory memory = Parameters::Memory::kValuesAndGradients, double std_dev = 0.3)
      : transformer(config), parameters(transformer, memory) {
    if (memory != Parameters::Memory::kUnbound) randomize(parameters, 3, std_dev);
  }
  template <class T>
  std::map<std::string, std::vector<T>> values() const {
    std::map<std::string, std::vector<T>> out;
    for (const auto& item : parameters.items()) {
      const std::span<const float> v = values_of(item);
      out[item.info.name].assign(v.begin(), v.end());
    }
    return out;
  }
  std::vector<float> gradients() const {
    std::vector<float> out;
    for (const auto& item : parameters.items()) {
      const float* const g = item.weight->gradient.f32();
      out.insert(out.end(), g, g + item.weight->gradient.elements());
    }
    return out;
  }
};

}  // namespace tril::testing
