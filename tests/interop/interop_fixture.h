// Models, and what they compute, for the tests of this folder.
#pragma once

#include <span>
#include <vector>

#include "tests/nn/model_fixture.h"
#include "tril/containers/safetensors.h"
#include "tril/interop/stored_model.h"

namespace tril::testing {

// As open_model and load_model do it.
inline LoadedModel load(StoredModel stored) {
  check_weights(stored.arrays, stored.layout, stored.config);
  return load_model(std::move(stored));
}

// Logits (N, V) of `rows` rows of tokens; without tokens, of one row of every third of the vocabulary.
inline std::vector<float> logits_of(Transformer& model, std::span<const int32_t> tokens = {},
                                    int64_t rows = 1) {
  std::vector<int32_t> thirds;
  if (tokens.empty()) {
    for (int64_t i = 0; i < std::min<int64_t>(model.config().context, 12); ++i)
      thirds.push_back(static_cast<int32_t>(i * 3 % model.config().vocabulary));
    tokens = thirds;
  }
  const int64_t time = std::ssize(tokens) / rows;
  SerialExecutor executor;
  Session<Transformer> session(model, executor, rows, time, /*backward=*/false);
  std::vector<float> out(tokens.size() * static_cast<size_t>(model.config().vocabulary));
  model.logits(session.context(), {.batch = rows, .time = time, .tokens = tokens.data()}, session.state(),
               View(out.data(), {std::ssize(tokens), model.config().vocabulary}));
  return out;
}

template <class T>
std::span<const T> elements(const NamedArray& array) {
  return {reinterpret_cast<const T*>(array.bytes.data()), static_cast<size_t>(array.elements())};
}

// The logits that another program computed in float: a file of "tokens", (T) or (B, T), and "logits".
inline void expect_golden_logits(Transformer& model, const Path& path) {
  const SafetensorsFile golden(path);
  const NamedArray& tokens = golden.get("tokens");
  std::vector<int32_t> ids;
  if (tokens.dtype == "I64") {
    for (const int64_t id : elements<int64_t>(tokens)) ids.push_back(static_cast<int32_t>(id));
  } else {
    ASSERT_EQ(tokens.dtype, "I32");
    const auto narrow = elements<int32_t>(tokens);
    ids.assign(narrow.begin(), narrow.end());
  }
  const NamedArray& logits = golden.get("logits");
  ASSERT_EQ(logits.dtype, "F32");
  expect_near(path.filename().string(), logits_of(model, ids, tokens.shape.size() == 2 ? tokens.shape[0] : 1),
              elements<float>(logits), 5e-6);
}

}  // namespace tril::testing
