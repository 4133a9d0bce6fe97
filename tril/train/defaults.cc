#include "tril/train/defaults.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "tril/text/utf8.h"

namespace tril {
namespace {

// Fewer tokens a weight than the 20 of Hoffmann et al. (2022): in minutes a larger model that has seen less
// is ahead.
constexpr double kTokensPerParameter = 5;
constexpr int64_t kEpochs = 40;
// What a training step reaches of the speed of one large product; small models reach less.
constexpr double kEfficiency = 0.4;
constexpr int64_t kTokensPerStep = 2048;

struct Shape3 {
  int64_t layers, heads, channels;
};
constexpr Shape3 kLadder[] = {{2, 2, 64},  {3, 3, 96},  {4, 4, 128}, {5, 6, 192},
                              {6, 8, 256}, {6, 6, 384}, {8, 8, 512}, {12, 12, 768}};

void set(int64_t& option, int64_t value) {
  if (option == 0) option = value;
}

// The divisor of `channels` whose heads are nearest to 32 wide (as a ratio), the wider on ties; a multiple of
// `kv_heads`.
int64_t heads_for(int64_t channels, int64_t kv_heads) {
  const int64_t unit = std::max<int64_t>(kv_heads, 1);
  int64_t best = unit;
  double best_distance = 1e9;
  for (int64_t heads = unit; heads <= channels; heads += unit) {
    if (channels % heads != 0 || channels / heads > 256) continue;
    const double distance = std::abs(std::log2(static_cast<double>(channels / heads) / 32.0));
    if (distance < best_distance) {
      best = heads;
      best_distance = distance;
    }
  }
  return best;
}

// One rung with what was given explicitly in its place.
TrainOptions on_rung(TrainOptions o, const Shape3& rung) {
  const int64_t unit = std::max<int64_t>(o.kv_heads, 1);
  set(o.layers, rung.layers);
  if (o.head_size > 0) {
    set(o.channels, rung.channels);
    set(o.heads, round_up(std::max<int64_t>(o.channels / o.head_size, 1), unit));
  } else if (o.channels > 0) {
    set(o.heads, heads_for(o.channels, o.kv_heads));
  } else {
    set(o.heads, round_up(rung.heads, unit));
    set(o.channels, round_up(rung.channels, o.heads));
  }
  return o;
}

// FLOPs that this run may spend.
double budget_flops(const RunFacts& facts) {
  return std::max(facts.gflops, 1.0) * 1e9 * kEfficiency * std::max(facts.seconds, 1.0);
}

void choose_shape(TrainOptions& o, const RunFacts& facts) {
  TrainOptions chosen = on_rung(o, kLadder[0]);
  for (const Shape3& rung : kLadder) {
    const TrainOptions candidate = on_rung(o, rung);
    const TransformerConfig config = model_config(candidate, facts.vocabulary).resolved();
    const auto weights = static_cast<double>(config.matrix_parameters());
    const double per_token = config.training_flops(1, config.context) / static_cast<double>(config.context);
    const double tokens =
        facts.total_tokens > 0 ? static_cast<double>(facts.total_tokens) : budget_flops(facts) / per_token;
    const bool affordable = tokens >= kTokensPerParameter * weights;
    const bool fed = weights <= 2 * static_cast<double>(facts.train_tokens);
    if (!affordable || !fed) break;
    chosen = candidate;
  }
  o = chosen;
}

void choose_length(TrainOptions& o, const RunFacts& facts, const TransformerConfig& config) {
  if (o.batch == 0) o.batch = std::clamp<int64_t>(kTokensPerStep / o.context / o.accumulate, 1, 64);
  if (o.steps > 0) return;
  const int64_t step_tokens = checked_multiply(checked_multiply(o.batch, o.context), o.accumulate);
  if (facts.total_tokens > 0) {
    o.steps = divide_up(facts.total_tokens, step_tokens);
    return;
  }
  const double step_flops = config.training_flops(o.batch, o.context) * static_cast<double>(o.accumulate);
  const double affordable = std::min(budget_flops(facts) / step_flops, 1e9);
  const double epochs = static_cast<double>(kEpochs) * static_cast<double>(facts.train_tokens) /
                        static_cast<double>(step_tokens);
  const auto steps = static_cast<int64_t>(std::min(affordable, std::max(epochs, 200.0)));
  // Two leading digits: the same data and machine give the same round number in spite of noisy measurements.
  const int64_t unit = steps >= 1000 ? 100 : steps >= 100 ? 10 : 1;
  o.steps = std::max<int64_t>(steps / unit * unit, 1);
}

void choose_rates(TrainOptions& o, const TransformerConfig& config) {
  const int64_t weights = config.matrix_parameters();
  if (o.learning_rate == 0)
    o.learning_rate = weights < 200'000 ? 3e-3f : weights < 30'000'000 ? 1e-3f : 6e-4f;
  if (o.min_learning_rate < 0) o.min_learning_rate = o.learning_rate / 10;
  if (o.warmup < 0) o.warmup = std::min<int64_t>(100, o.steps / 20);
}

void choose_intervals(TrainOptions& o, const RunFacts& facts) {
  set(o.eval_every, std::clamp<int64_t>(o.steps / 20, 1, 1000));
  // Evaluation costs a third of training: at most about 5 % of the run, and no more than there is.
  const int64_t windows = std::max<int64_t>(divide_up(facts.validation_tokens, o.batch * o.context), 1);
  const double batches = static_cast<double>(o.eval_every) * static_cast<double>(o.accumulate) * 15 / 100;
  set(o.eval_batches, std::min(windows, static_cast<int64_t>(std::clamp(batches, 4.0, 1e15))));
  set(o.save_every, std::min<int64_t>(o.steps, std::max<int64_t>(o.eval_every, 100)));
  set(o.sample_every, std::max<int64_t>(o.steps / 5, 1));
}

}  // namespace

TextFacts text_facts(std::span<const Document> documents) {
  TextFacts facts{.documents = static_cast<int64_t>(documents.size())};
  std::unordered_set<char32_t> seen;
  for (const Document& document : documents) {
    facts.bytes += static_cast<int64_t>(document.text.size());
    for (size_t at = 0; at < document.text.size() && seen.size() <= 256;) {
      seen.insert(utf8_decode(document.text, at));
      at += static_cast<size_t>(std::max(1, utf8_length(document.text, at)));
    }
  }
  facts.distinct_characters = static_cast<int64_t>(seen.size());
  return facts;
}

void choose_tokenizer(TrainOptions& o, const TextFacts& text) {
  constexpr int64_t kKilo = 1 << 10, kMega = 1 << 20;
  if (o.tokenizer.empty()) {
    const bool characters = o.vocab == 0 && text.bytes <= 2 * kMega && text.distinct_characters <= 256;
    o.tokenizer = characters ? "char" : "bpe";
  }
  if (o.tokenizer != "bpe") return;
  set(o.vocab, text.bytes <= 256 * kKilo   ? 512
               : text.bytes <= 4 * kMega   ? 1024
               : text.bytes <= 32 * kMega  ? 2048
               : text.bytes <= 256 * kMega ? 4096
                                           : 8192);
}

void choose_context(TrainOptions& o, const TextFacts& text) {
  // A tenth of a short text is for validation and must hold a window.
  const auto part = std::min(o.val_fraction > 0 ? o.val_fraction : 1.0, 1.0 - o.val_fraction);
  const double tokens = static_cast<double>(text.bytes) * part / (o.tokenizer == "bpe" ? 4 : 1);
  int64_t context = 128;
  while (context > 8 && static_cast<double>(context) > tokens / 4) context /= 2;
  set(o.context, context);
}

void choose_sizes(TrainOptions& o, const RunFacts& facts) {
  check_options(o);
  set(o.context, 128);
  choose_shape(o, facts);
  const TransformerConfig config = model_config(o, facts.vocabulary).resolved();
  o.kv_heads = config.kv_heads;
  o.head_size = config.head_size;
  o.mlp_hidden = config.mlp_hidden;
  choose_length(o, facts, config);
  choose_rates(o, config);
  choose_intervals(o, facts);
}

}  // namespace tril
