#include "tril/generate/decoder.h"

#include <algorithm>

namespace tril {
namespace {

using Tokens = std::span<const int32_t>;

}  // namespace

struct BatchDecoder::Impl {
  struct Sequence {
    int64_t length = 0;           // tokens so far
    std::vector<int32_t> tokens;  // the last of them, at least half of the capacity; none for endless models
    Tokens to_read;               // in the call at hand
    bool has_logits = false;
  };

  const Transformer& model;
  Executor& executor;
  KeyValueCache cache;
  AppendSession one;                     // a token at a time
  std::unique_ptr<AppendSession> chunk;  // of a prompt
  int64_t chunk_time = 0;
  std::vector<Sequence> sequences;
  Tensor fresh;                 // (B, V): of the last read, of those that took part
  Tensor logits;                // (B, V): of each sequence; none of a single one
  std::vector<int32_t> inputs;  // (B, T)
  std::vector<int32_t> counts;  // (B)

  Impl(const Transformer& model_, Executor& executor_, const Options& options)
      : model(model_),
        executor(executor_),
        cache(model_.config(), {.batch = options.sequences,
                                .capacity = options.capacity,
                                .largest_append = std::min(kChunk, model_.config().context),
                                .dtype = options.cache}),
        one(model_, executor_, cache, 1),
        sequences(static_cast<size_t>(options.sequences)),
        fresh({options.sequences, model_.config().vocabulary}),
        logits({options.sequences > 1 ? options.sequences : 0, model_.config().vocabulary}),
        counts(sequences.size()) {}

  AppendSession& session(int64_t time) {
    if (time == 1) return one;
    if (time != chunk_time) {
      chunk.reset();
      chunk = std::make_unique<AppendSession>(model, executor, cache, time);
      chunk_time = time;
    }
    return *chunk;
  }

  void check(Tokens tokens) const {
    const int64_t vocabulary = model.config().vocabulary;
    for (size_t i = 0; i < tokens.size(); ++i) {
      check_use(tokens[i] >= 0 && tokens[i] < vocabulary,
                "decoder: token {} at position {} is outside the vocabulary of {}; was it made with another "
                "tokenizer?",
                tokens[i], i, vocabulary);
    }
  }

  void remember(Sequence& s, Tokens more) const {
    s.length += std::ssize(more);
    if (cache.endless()) return;
    s.tokens.insert(s.tokens.end(), more.begin(), more.end());
    const int64_t most = cache.config().capacity;
    if (std::ssize(s.tokens) > 2 * most) s.tokens.erase(s.tokens.begin(), s.tokens.end() - most);
  }

  // What sequence b must read so that it has its new tokens too.
  void plan(int64_t b, Tokens tokens) {
    Sequence& s = sequences[static_cast<size_t>(b)];
    const int64_t capacity = cache.config().capacity;
    remember(s, tokens);
    s.to_read = tokens;
    if (cache.endless() || cache.length(b) + std::ssize(tokens) <= capacity) return;
    cache.clear(b);
    const int64_t kept = std::clamp(std::ssize(tokens), std::max<int64_t>(capacity / 2, 1), capacity);
    s.to_read = Tokens(s.tokens).last(static_cast<size_t>(kept));
  }

  // Up to the largest append of each sequence, the last columns of `time` being theirs.
  void read(int64_t time) {
    const auto batch = std::ssize(sequences);
    const bool all =
        std::ranges::all_of(sequences, [&](const Sequence& s) { return std::ssize(s.to_read) >= time; });
    inputs.assign(static_cast<size_t>(batch * time), 0);
    for (int64_t b = 0; b < batch; ++b) {
      Sequence& s = sequences[static_cast<size_t>(b)];
      const int64_t count = std::min(time, std::ssize(s.to_read));
      std::copy_n(s.to_read.begin(), count, inputs.begin() + (b + 1) * time - count);
      counts[static_cast<size_t>(b)] = static_cast<int32_t>(count);
      s.to_read = s.to_read.subspan(static_cast<size_t>(count));
    }
    AppendSession& with = session(time);
    model.append(with.context(), {.batch = batch, .time = time, .tokens = inputs.data()},
                 all ? nullptr : counts.data(), cache, with.state(), fresh);
    for (int64_t b = 0; b < batch; ++b) {
      if (counts[static_cast<size_t>(b)] == 0) continue;
      sequences[static_cast<size_t>(b)].has_logits = true;
      const int64_t vocabulary = model.config().vocabulary;
      if (batch > 1) std::copy_n(fresh.f32() + b * vocabulary, vocabulary, logits.f32() + b * vocabulary);
    }
  }
};

BatchDecoder::BatchDecoder(const Transformer& model, Executor& executor, const Options& options)
    : impl_(std::make_unique<Impl>(model, executor, options)) {}
BatchDecoder::~BatchDecoder() = default;

void BatchDecoder::append(std::span<const Tokens> tokens) {
  Impl& d = *impl_;
  check_use(tokens.size() == d.sequences.size(), "decoder: tokens of {} sequences, but it has {}",
            tokens.size(), d.sequences.size());
  for (const Tokens& t : tokens) d.check(t);
  for (size_t b = 0; b < tokens.size(); ++b) d.plan(static_cast<int64_t>(b), tokens[b]);
  while (true) {
    int64_t longest = 0;
    for (const Impl::Sequence& s : d.sequences) longest = std::max(longest, std::ssize(s.to_read));
    if (longest == 0) return;
    d.read(std::min(longest, d.cache.config().largest_append));
  }
}

std::span<const float> BatchDecoder::logits(int64_t sequence) const {
  const Impl& d = *impl_;
  if (!d.sequences.at(static_cast<size_t>(sequence)).has_logits) return {};
  const int64_t vocabulary = d.model.config().vocabulary;
  const Tensor& from = d.sequences.size() > 1 ? d.logits : d.fresh;
  return {from.f32() + sequence * vocabulary, static_cast<size_t>(vocabulary)};
}

int64_t BatchDecoder::length(int64_t sequence) const {
  return impl_->sequences.at(static_cast<size_t>(sequence)).length;
}

void BatchDecoder::reset(int64_t sequence) {
  impl_->sequences.at(static_cast<size_t>(sequence)) = {};
  impl_->cache.clear(sequence);
}

bool BatchDecoder::truncate(int64_t sequence, int64_t tokens) {
  Impl& d = *impl_;
  Impl::Sequence& s = d.sequences.at(static_cast<size_t>(sequence));
  // After a context was left the cache's tokens are the last ones alone.
  if (d.cache.length(sequence) != s.length || !d.cache.truncate(sequence, tokens)) return false;
  s.length = tokens;
  if (!d.cache.endless()) s.tokens.resize(static_cast<size_t>(tokens));
  s.has_logits = false;
  return true;
}

int64_t BatchDecoder::cache_bytes() const { return impl_->cache.bytes(); }

Decoder::Decoder(const Transformer& model, Executor& executor, DType cache)
    : decoder_(model, executor, {.cache = cache}) {}

void Decoder::reset() {
  decoder_.reset(0);
  tokens_.clear();
}

std::span<const float> Decoder::append(Tokens tokens) {
  check_use(length() > 0 || !tokens.empty(),
            "decoder: no tokens yet; a prompt of at least one token is needed");
  decoder_.append({&tokens, 1});
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  tokens_read_ += std::ssize(tokens);
  return decoder_.logits(0);
}

std::span<const float> Decoder::become(Tokens tokens) {
  check_use(!tokens.empty(), "decoder: a sequence of at least one token is needed");
  const auto [mine, other] = std::ranges::mismatch(tokens_, tokens);
  // The last token is read in any case: the logits are those after it.
  auto same = static_cast<size_t>(std::min(mine - tokens_.begin(), std::ssize(tokens) - 1));
  if (same < tokens_.size() && !decoder_.truncate(0, static_cast<int64_t>(same))) {
    decoder_.reset(0);
    same = 0;
  }
  tokens_.resize(same);
  return append(tokens.subspan(same));
}

}  // namespace tril
