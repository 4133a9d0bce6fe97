#include "tril/train/training_data.h"

#include <algorithm>
#include <cmath>

#include "tril/train/watch.h"

namespace tril {
namespace {

// How often each id occurs; of a store, as its file says.
std::vector<uint64_t> token_counts(const Corpus& corpus, int64_t vocabulary) {
  std::vector<uint64_t> counts(static_cast<size_t>(vocabulary));
  if (corpus.conversations) {
    const Conversations& train = corpus.conversations->train;
    for (size_t i = 0; i < train.tokens.size(); ++i)
      if (train.learned[i] != 0 && train.tokens[i] < vocabulary)
        ++counts[static_cast<size_t>(train.tokens[i])];
  } else if (corpus.store) {
    const std::span<const uint64_t> stored = corpus.store->train.counts();
    std::copy_n(stored.begin(), std::min(stored.size(), counts.size()), counts.begin());
  } else {
    for (const int32_t token : corpus.train)
      if (token >= 0 && token < vocabulary) ++counts[static_cast<size_t>(token)];
  }
  return counts;
}

}  // namespace

std::vector<WeightedTokens> training_sources(const Corpus& corpus) {
  if (corpus.sources.empty()) return {{corpus.train_tokens(), 1}};
  std::vector<WeightedTokens> out;
  for (size_t s = 0; s < corpus.sources.size(); ++s)
    out.push_back({corpus.sources[s].train_tokens(), corpus.weights[s]});
  return out;
}

std::vector<TokenView> validation_sources(const Corpus& corpus) {
  if (corpus.sources.empty()) return {corpus.validation_tokens()};
  std::vector<TokenView> out;
  for (const Corpus& source : corpus.sources) out.push_back(source.validation_tokens());
  return out;
}

double training_entropy(const Corpus& corpus, int64_t vocabulary) {
  if (corpus.sources.empty()) return unigram_entropy(token_counts(corpus, vocabulary));
  constexpr double kScale = 1e15;  // so that proportions are whole numbers
  double total = 0;
  for (const int64_t weight : corpus.weights) total += static_cast<double>(weight);
  std::vector<uint64_t> mixed(static_cast<size_t>(vocabulary));
  for (size_t s = 0; s < corpus.sources.size(); ++s) {
    const std::vector<uint64_t> counts = token_counts(corpus.sources[s], vocabulary);
    const double tokens = std::max(static_cast<double>(corpus.sources[s].train_size()), 1.0);
    const double scale = kScale * static_cast<double>(corpus.weights[s]) / total / tokens;
    for (size_t id = 0; id < mixed.size(); ++id)
      mixed[id] += static_cast<uint64_t>(std::llround(scale * static_cast<double>(counts[id])));
  }
  return unigram_entropy(mixed);
}

}  // namespace tril
