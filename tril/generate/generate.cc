#include "tril/generate/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tril/base/random.h"

namespace tril {
namespace {

struct Candidate {
  double weight;  // not normalised
  int32_t id;
};

// The most likely first, the lower id first on ties, cut to the top k.
std::vector<int32_t> sorted_ids(std::span<const float> logits, int64_t top_k) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  };
  const size_t count = top_k > 0 ? std::min(ids.size(), static_cast<size_t>(top_k)) : ids.size();
  std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), before);
  ids.resize(count);
  return ids;
}

// The shortest run of the most likely tokens whose probabilities reach top_p; at least one.
// Holtzman et al., "The curious case of neural text degeneration" (2020), section 3.1.
void cut_nucleus(std::vector<Candidate>& candidates, double top_p) {
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  double sum = 0;
  size_t count = 0;
  while (count < candidates.size() && (count == 0 || sum < top_p * total)) sum += candidates[count++].weight;
  candidates.resize(count);
}

}  // namespace

void check_sampler(const SamplerOptions& options) {
  check_use(options.temperature >= 0 && std::isfinite(options.temperature),
            "--temperature is {}; give a number from 0 (always the most likely token) upwards",
            options.temperature);
  check_use(options.top_k >= 0, "--top-k is {}; give a number of tokens, or 0 for all", options.top_k);
  check_use(options.top_p > 0 && options.top_p <= 1, "--top-p is {}; give a number above 0 and at most 1",
            options.top_p);
}

int32_t sample_token(std::span<const float> logits, const SamplerOptions& options, uint64_t index) {
  check_sampler(options);
  check_use(!logits.empty(), "sampler: there are no logits");
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      fail(ErrorKind::kNumerics,
           "non-finite logits at step {}: token {} has {}; the model's weights are damaged or its training "
           "diverged",
           index, i, logits[i]);
    }
  }
  const auto highest = std::max_element(logits.begin(), logits.end());  // the first of equals
  if (options.temperature == 0) return static_cast<int32_t>(highest - logits.begin());

  // p_i ~ exp((logit_i - max) / temperature): the exponent is never above 0, so no temperature overflows.
  const auto weight = [&](int32_t id) {
    const double logit = logits[static_cast<size_t>(id)];
    return std::exp((logit - static_cast<double>(*highest)) / static_cast<double>(options.temperature));
  };
  std::vector<Candidate> candidates;
  if (options.top_k > 0 || options.top_p < 1) {
    for (const int32_t id : sorted_ids(logits, options.top_k)) candidates.push_back({weight(id), id});
    if (options.top_p < 1) cut_nucleus(candidates, options.top_p);
  } else {
    candidates.reserve(logits.size());
    for (size_t i = 0; i < logits.size(); ++i) {
      const auto id = static_cast<int32_t>(i);
      candidates.push_back({weight(id), id});
    }
  }
  double total = 0;
  for (const Candidate& c : candidates) total += c.weight;
  double left = RandomStream(options.seed, "sample").uniform64(index) * total;
  for (const Candidate& c : candidates) {
    if (left < c.weight) return c.id;
    left -= c.weight;
  }
  // Rounding left a little over: the last token that has any weight.
  const auto last =
      std::find_if(candidates.rbegin(), candidates.rend(), [](const Candidate& c) { return c.weight > 0; });
  return last->id;
}

struct Decoder::Impl {
  const Transformer& model;
  Executor& executor;
  int64_t length = 0;           // tokens so far
  std::vector<int32_t> tokens;  // the last of them, at least half of the capacity; none for endless models
  KeyValueCache cache;
  AppendSession one;                     // a token at a time
  std::unique_ptr<AppendSession> chunk;  // of a prompt
  int64_t chunk_time = 0;
  Tensor logits;  // (1, V)

  Impl(const Transformer& model_, Executor& executor_, DType dtype)
      : model(model_),
        executor(executor_),
        cache(model_.config(), {.largest_append = std::min(kChunk, model_.config().context), .dtype = dtype}),
        one(model_, executor_, cache, 1),
        logits({1, model_.config().vocabulary}) {}

  AppendSession& session(int64_t time) {
    if (time == 1) return one;
    if (time != chunk_time) {
      chunk.reset();
      chunk = std::make_unique<AppendSession>(model, executor, cache, time);
      chunk_time = time;
    }
    return *chunk;
  }

  void remember(std::span<const int32_t> more) {
    length += std::ssize(more);
    if (cache.endless()) return;
    tokens.insert(tokens.end(), more.begin(), more.end());
    const int64_t most = cache.config().capacity;
    if (std::ssize(tokens) > 2 * most) tokens.erase(tokens.begin(), tokens.end() - most);
  }

  void read(std::span<const int32_t> more) {
    const auto most = static_cast<size_t>(cache.config().largest_append);
    while (!more.empty()) {
      const std::span<const int32_t> now = more.first(std::min(most, more.size()));
      AppendSession& with = session(std::ssize(now));
      model.append(with.context(), {.batch = 1, .time = std::ssize(now), .tokens = now.data()}, nullptr,
                   cache, with.state(), logits);
      more = more.subspan(now.size());
    }
  }
};

Decoder::Decoder(const Transformer& model, Executor& executor, DType cache)
    : impl_(std::make_unique<Impl>(model, executor, cache)) {}
Decoder::~Decoder() = default;

void Decoder::reset() {
  impl_->length = 0;
  impl_->tokens.clear();
  impl_->cache.clear();
}
int64_t Decoder::length() const { return impl_->length; }
int64_t Decoder::cache_bytes() const { return impl_->cache.bytes(); }

std::span<const float> Decoder::append(std::span<const int32_t> tokens) {
  Impl& d = *impl_;
  const int64_t vocabulary = d.model.config().vocabulary, capacity = d.cache.config().capacity;
  for (size_t i = 0; i < tokens.size(); ++i) {
    check_use(tokens[i] >= 0 && tokens[i] < vocabulary,
              "decoder: token {} at position {} is outside the vocabulary of {}; was it made with another "
              "tokenizer?",
              tokens[i], i, vocabulary);
  }
  check_use(d.length > 0 || !tokens.empty(),
            "decoder: no tokens yet; a prompt of at least one token is needed");
  if (d.cache.endless() || d.cache.length(0) + std::ssize(tokens) <= capacity) {
    d.read(tokens);
    d.remember(tokens);
  } else {
    d.remember(tokens);
    d.cache.clear();
    const int64_t kept = std::clamp(std::ssize(tokens), std::max<int64_t>(capacity / 2, 1), capacity);
    d.read(std::span(d.tokens).last(static_cast<size_t>(kept)));
  }
  return {d.logits.f32(), static_cast<size_t>(vocabulary)};
}

std::vector<int32_t> generate(const Transformer& model, Executor& executor, std::span<const int32_t> prompt,
                              int64_t max_tokens, const SamplerOptions& options, int32_t end_of_text,
                              const std::function<bool(int32_t)>& on_token, DType cache) {
  check_sampler(options);
  check_use(!prompt.empty(), "generation: the prompt is empty; give at least one token");
  check_use(max_tokens >= 0, "generation: --max-tokens is {}; give a number from 0", max_tokens);
  std::vector<int32_t> out;
  if (max_tokens == 0) return out;
  Decoder decoder(model, executor, cache);
  std::span<const float> logits = decoder.append(prompt);
  while (true) {
    const int32_t token = sample_token(logits, options, out.size());
    if (token == end_of_text) return out;
    out.push_back(token);
    if (on_token && !on_token(token)) return out;
    if (static_cast<int64_t>(out.size()) == max_tokens) return out;
    logits = decoder.append({&token, 1});
  }
}

}  // namespace tril
