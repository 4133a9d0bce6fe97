#include "tril/generate/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "tril/base/error.h"
#include "tril/base/random.h"

namespace tril {
namespace {

constexpr double kOut = -std::numeric_limits<double>::infinity();
constexpr float kMostPenalty = 100;  // beyond, a float's logit could overflow

bool is_allowed(double logit) { return logit != kOut; }
bool in_range(float value, float least, float most) { return value >= least && value <= most; }  // not NaN

void check_finite(std::span<const float> logits, uint64_t step) {
  check_use(!logits.empty(), "sampler: there are no logits");
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isfinite(logits[i])) {
      fail(ErrorKind::kNumerics,
           "non-finite logits at step {}: token {} has {}; the model's weights are damaged or its training "
           "diverged",
           step, i, logits[i]);
    }
  }
}

double log_sum_exp(std::span<const float> logits) {
  const double highest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - highest);
  return highest + std::log(sum);
}

}  // namespace

void check_sampler(const SamplerOptions& options, int64_t vocabulary) {
  check_use(options.temperature >= 0 && std::isfinite(options.temperature),
            "--temperature is {}; give a number from 0 (always the most likely token) upwards",
            options.temperature);
  check_use(options.top_k >= 0, "--top-k is {}; give a number of tokens, or 0 for all", options.top_k);
  check_use(options.top_p > 0 && options.top_p <= 1, "--top-p is {}; give a number above 0 and at most 1",
            options.top_p);
  check_use(in_range(options.min_p, 0, 1), "--min-p is {}; give a number from 0 (all tokens) to 1",
            options.min_p);
  check_use(options.repetition_penalty > 0 && options.repetition_penalty <= kMostPenalty,
            "--repetition-penalty is {}; give a number above 0 and at most {}, 1 for none",
            options.repetition_penalty, kMostPenalty);
  const auto check_penalty = [](const char* name, float value) {
    check_use(in_range(value, -kMostPenalty, kMostPenalty),
              "--{} is {}; give a number from {} to {}, 0 for none", name, value, -kMostPenalty,
              kMostPenalty);
  };
  check_penalty("presence-penalty", options.presence_penalty);
  check_penalty("frequency-penalty", options.frequency_penalty);
  check_use(options.no_repeat_ngram >= 0, "--no-repeat-ngram is {}; give a number of tokens, or 0 for none",
            options.no_repeat_ngram);
  for (const TokenBias& bias : options.logit_bias) {
    check_use(bias.id >= 0 && (vocabulary < 0 || bias.id < vocabulary),
              "--logit-bias: there is no token {}; the model has ids from 0 to {}", bias.id,
              vocabulary < 0 ? std::numeric_limits<int32_t>::max() : vocabulary - 1);
    check_use(std::isfinite(bias.bias) || bias.bias < 0,
              "--logit-bias: token {} has {}; give a finite number, or -inf so that it never comes", bias.id,
              bias.bias);
  }
}

int32_t sample_token(std::span<const float> logits, const SamplerOptions& options, uint64_t index) {
  SamplerOptions one = options;
  one.repetition_penalty = 1;
  one.presence_penalty = one.frequency_penalty = 0;
  one.no_repeat_ngram = 0;
  return Sampler(one, {}, index).next(logits);
}

Sampler::Sampler(const SamplerOptions& options, std::span<const int32_t> prompt, uint64_t index)
    : options_(options), written_(static_cast<int64_t>(index)) {
  check_sampler(options_);
  for (const int32_t token : prompt) {
    if (options_.repetition_penalty != 1) times_.try_emplace(token, 0);
    remember_ngram(token);
  }
}

int32_t Sampler::next(std::span<const float> logits) {
  check_finite(logits, static_cast<uint64_t>(written_));
  check_sampler(options_, std::ssize(logits));
  logits_.assign(logits.begin(), logits.end());
  adjust();
  rule_out_repeated_ngrams();
  const int32_t token = draw();
  ++written_;
  if (options_.repetition_penalty != 1 || options_.presence_penalty != 0 || options_.frequency_penalty != 0)
    ++times_[token];
  remember_ngram(token);
  return token;
}

void Sampler::remember_ngram(int32_t token) {
  const auto n = static_cast<size_t>(options_.no_repeat_ngram);
  if (n == 0) return;
  if (last_.size() == n - 1) {
    followers_[last_].push_back(token);
    if (n == 1) return;
    last_.erase(last_.begin());
  }
  last_.push_back(token);
}

void Sampler::adjust() {
  for (const TokenBias& bias : options_.logit_bias)
    logits_[static_cast<size_t>(bias.id)] += static_cast<double>(bias.bias);
  check_use(options_.logit_bias.empty() || std::ranges::any_of(logits_, is_allowed),
            "--logit-bias rules out all {} tokens; leave at least one", logits_.size());
  const double repetition = options_.repetition_penalty, presence = options_.presence_penalty,
               frequency = options_.frequency_penalty;
  for (const auto& [id, times] : times_) {
    if (static_cast<size_t>(id) >= logits_.size()) continue;  // of a prompt that the model refuses
    double& logit = logits_[static_cast<size_t>(id)];
    logit = logit > 0 ? logit / repetition : logit * repetition;
    if (times > 0) logit -= presence + frequency * static_cast<double>(times);
  }
}

void Sampler::rule_out_repeated_ngrams() {
  const auto found = followers_.find(last_);
  if (options_.no_repeat_ngram == 0 || found == followers_.end()) return;
  std::vector<double> allowed = logits_;
  for (const int32_t id : found->second)
    if (static_cast<size_t>(id) < allowed.size()) allowed[static_cast<size_t>(id)] = kOut;
  if (std::ranges::any_of(allowed, is_allowed)) logits_.swap(allowed);
}

int32_t Sampler::draw() {
  const auto highest = std::max_element(logits_.begin(), logits_.end());  // the first of equals
  if (options_.temperature == 0) return static_cast<int32_t>(highest - logits_.begin());

  // p_i ~ exp((l_i - max) / temperature): the exponent is never above 0, so no temperature overflows.
  candidates_.clear();
  for (size_t i = 0; i < logits_.size(); ++i)
    candidates_.push_back({std::exp((logits_[i] - *highest) / static_cast<double>(options_.temperature)),
                           static_cast<int32_t>(i)});
  cut_to_most_likely();
  double total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  const RandomStream random(options_.seed, "sample");
  double left = random.uniform64(static_cast<uint64_t>(written_)) * total;
  for (const Candidate& c : candidates_) {
    if (left < c.weight) return c.id;
    left -= c.weight;
  }
  // Rounding left a little over: the last token that has any weight.
  const auto last =
      std::find_if(candidates_.rbegin(), candidates_.rend(), [](const Candidate& c) { return c.weight > 0; });
  return last->id;
}

// Puts the `count` most likely to the front, in order, and no others away.
void Sampler::sort_likeliest(size_t count) {
  const auto before = [&](const Candidate& a, const Candidate& b) {
    const double x = logits_[static_cast<size_t>(a.id)], y = logits_[static_cast<size_t>(b.id)];
    return x != y ? x > y : a.id < b.id;
  };
  const auto end = candidates_.begin() + static_cast<std::ptrdiff_t>(count);
  if (count < candidates_.size()) std::nth_element(candidates_.begin(), end, candidates_.end(), before);
  std::sort(candidates_.begin(), end, before);
}

void Sampler::cut_to_most_likely() {
  const size_t all = candidates_.size();
  if (options_.top_k > 0) {
    const size_t kept = std::min(all, static_cast<size_t>(options_.top_k));
    sort_likeliest(kept);
    candidates_.resize(kept);
  }
  if (options_.top_p < 1) {
    double total = 0, sum = 0;
    for (const Candidate& c : candidates_) total += c.weight;
    size_t sorted = options_.top_k > 0 ? candidates_.size() : 0, count = 0;
    while (count < candidates_.size() && (count == 0 || sum < options_.top_p * total)) {
      // Most of a vocabulary is never looked at.
      if (count == sorted)
        sort_likeliest(sorted = std::min(candidates_.size(), std::max<size_t>(64, 8 * sorted)));
      sum += candidates_[count++].weight;
    }
    candidates_.resize(count);
  }
  // The highest has weight 1.
  if (options_.min_p > 0)
    std::erase_if(candidates_,
                  [&](const Candidate& c) { return c.weight < static_cast<double>(options_.min_p); });
}

TokenProbability log_probability(std::span<const float> logits, int32_t id) {
  return {id, static_cast<double>(logits[static_cast<size_t>(id)]) - log_sum_exp(logits)};
}

std::vector<TokenProbability> likeliest(std::span<const float> logits, int64_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto end = ids.begin() + static_cast<std::ptrdiff_t>(std::min<int64_t>(count, std::ssize(ids)));
  std::partial_sort(ids.begin(), end, ids.end(), [&](int32_t a, int32_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x != y ? x > y : a < b;
  });
  const double sum = log_sum_exp(logits);
  std::vector<TokenProbability> out;
  for (auto id = ids.begin(); id != end; ++id)
    out.push_back({*id, static_cast<double>(logits[static_cast<size_t>(*id)]) - sum});
  return out;
}

}  // namespace tril
