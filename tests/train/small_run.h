// A small run for the tests: a corpus with something to learn, options without zeros, a folder that goes
// away.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <string>
#include <vector>

#include "tril/base/random.h"
#include "tril/train/trainer.h"

namespace tril::testing {

// Token i follows from the two before it, nine times of ten.
inline Corpus small_corpus(int64_t vocabulary = 17, int64_t train = 3000, int64_t validation = 500) {
  const RandomStream random(5, "corpus");
  std::vector<int32_t> tokens = {1, 2};
  for (uint64_t i = 2; static_cast<int64_t>(tokens.size()) < train + validation; ++i) {
    const auto v = static_cast<uint64_t>(vocabulary);
    const auto rule = static_cast<uint64_t>(tokens[i - 1]) * 3 + static_cast<uint64_t>(tokens[i - 2]) + 1;
    tokens.push_back(
        static_cast<int32_t>(random.below(2 * i, 10) == 0 ? random.below(2 * i + 1, v) : rule % v));
  }
  Corpus corpus;
  corpus.train.assign(tokens.begin(), tokens.begin() + train);
  corpus.validation.assign(tokens.begin() + train, tokens.end());
  corpus.train_bytes = 2 * train;
  corpus.validation_bytes = 2 * validation;
  corpus.documents = 1;
  corpus.end_of_text = 0;  // for --document-mask
  return corpus;
}

// 0 1 2 .. n-1 0 1 ..: learned in a few steps.
inline Corpus counting_corpus(int32_t vocabulary = 17) {
  Corpus corpus = small_corpus(vocabulary);
  for (size_t i = 0; i < corpus.train.size(); ++i)
    corpus.train[i] = static_cast<int32_t>(i % static_cast<size_t>(vocabulary));
  return corpus;
}

inline TrainOptions small_options() {
  TrainOptions o;
  o.arch = "gpt";
  o.layers = 2;
  o.heads = 3;
  o.channels = 24;
  o.context = 16;
  o.batch = 4;
  o.steps = 40;
  o.learning_rate = 3e-3f;
  o.min_learning_rate = 3e-4f;
  o.warmup = 4;
  o.eval_every = o.save_every = o.sample_every = 10;
  o.eval_batches = 3;
  return o;
}

inline TransformerConfig small_config(const TrainOptions& o, int64_t vocabulary = 17) {
  return model_config(o, vocabulary).resolved();
}

// Everything that a run carries from one step to the next.
inline std::vector<float> run_state(Trainer& trainer) {
  std::vector<float> out;
  const auto add = [&](const View& view) {
    if (!view) return;
    if (view.dtype == DType::kF32) {
      out.insert(out.end(), view.f32(), view.f32() + view.elements());
      return;
    }
    const auto* const halves = reinterpret_cast<const Bfloat16*>(view.data);
    for (int64_t i = 0; i < view.elements(); ++i) out.push_back(to_float(halves[i]));
  };
  for (const auto& item : trainer.parameters().items()) add(item.weight->value);
  for (const auto& moments : trainer.optimizer().moments()) {
    add(moments.m);
    add(moments.v);
    add(moments.average);
  }
  return out;
}

inline std::vector<double> run_steps(Trainer& trainer, int64_t count) {
  std::vector<double> losses;
  for (int64_t i = 0; i < count; ++i) losses.push_back(trainer.step().loss);
  return losses;
}

class TemporaryFolder {
 public:
  TemporaryFolder() {
    static std::atomic<int> number{0};
    path_ = std::filesystem::temp_directory_path() / fmt::format("tril-test-{}-{}", ::getpid(), number++);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const Path& path() const { return path_; }

 private:
  Path path_;
};

// The message of the Error that `body` throws, which must be of this kind.
template <class Body>
std::string error_of(ErrorKind kind, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "'" << part << "' is not in: " << text;
}

}  // namespace tril::testing
