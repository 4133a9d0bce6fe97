// Models, and what they compute, for the tests of this folder.
#pragma once

#include <span>
#include <vector>

#include "tests/nn/model_fixture.h"
#include "tril/interop/stored_model.h"

namespace tril::testing {

// As open_model and load_model do it.
inline LoadedModel load(StoredModel stored) {
  check_weights(stored.arrays, stored.layout, stored.config);
  return load_model(std::move(stored));
}

// Logits (N, V) of `rows` rows of tokens; without tokens of the first ones of the vocabulary.
inline std::vector<float> logits_of(Transformer& model, std::span<const int32_t> tokens = {},
                                    int64_t rows = 1) {
  std::vector<int32_t> first;
  if (tokens.empty()) {
    for (int64_t i = 0; i < std::min<int64_t>(model.config().context, 8); ++i)
      first.push_back(static_cast<int32_t>(i * 3 % model.config().vocabulary));
    tokens = first;
  }
  const int64_t time = std::ssize(tokens) / rows;
  SerialExecutor executor;
  Session<Transformer> session(model, executor, rows, time, /*backward=*/false);
  std::vector<float> out(tokens.size() * static_cast<size_t>(model.config().vocabulary));
  model.logits(session.context(), {.batch = rows, .time = time, .tokens = tokens.data()}, session.state(),
               View(out.data(), {std::ssize(tokens), model.config().vocabulary}));
  return out;
}

}  // namespace tril::testing
