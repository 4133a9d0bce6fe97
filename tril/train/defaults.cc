#include "tril/train/defaults.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_set>

#include "tril/text/utf8.h"
#include "tril/train/scaling.h"
#include "tril/train/step_time.h"
#include "tril/train/trainer.h"

namespace tril {
namespace {

// Fewer tokens a weight than kOptimalTokensPerParameter: in minutes a larger model that has seen less is
// ahead.
constexpr double kTokensPerParameter = 5;
// What evaluation, samples and saves leave of the time.
constexpr double kTrainingTime = 0.9;
constexpr int64_t kTokensPerStep = 2048;

struct Shape3 {
  int64_t layers, heads, channels;
};
constexpr Shape3 kLadder[] = {{2, 2, 64},  {3, 3, 96},  {4, 4, 128}, {5, 6, 192},
                              {6, 8, 256}, {6, 6, 384}, {8, 8, 512}, {12, 12, 768}};

void set(int64_t& option, int64_t value) {
  if (option == 0) option = value;
}

// The divisor of `channels` whose heads are nearest to 32 wide (as a ratio), the wider on ties, and of even
// width for rotary positions if there can be one; a multiple of `kv_heads`.
int64_t heads_for(int64_t channels, int64_t kv_heads) {
  const int64_t unit = std::max<int64_t>(kv_heads, 1);
  int64_t best = unit;
  double best_distance = 1e9;
  for (int64_t heads = unit; heads <= channels; heads += unit) {
    if (channels % heads != 0 || channels / heads > 256) continue;
    if (channels % 2 == 0 && channels / heads % 2 != 0) continue;
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
    set(o.channels, round_up(rung.channels, 2 * o.heads));
  }
  return o;
}

int64_t step_tokens(const TrainOptions& o) {
  return checked_multiply(checked_multiply(o.batch, o.context), o.accumulate);
}

// Steps that the time allows.
double affordable_steps(const TrainOptions& o, const TransformerConfig& config, const RunFacts& facts) {
  const double seconds = expected_step_time(config, o, std::max(facts.gflops, 0.1)).total();
  return kTrainingTime * std::max(facts.seconds, 1.0) / seconds;
}

// The least that a run of these sizes takes.
bool fits(TrainOptions o, const TransformerConfig& config, const RunFacts& facts, bool divide_batch) {
  if (facts.memory == 0) return true;
  choose_memory(o, config, facts, divide_batch);
  return Trainer::plan_memory(config, o, facts.threads).total() <= facts.memory;
}

SizeLimit choose_shape(TrainOptions& o, const RunFacts& facts, bool divide_batch) {
  const bool given = o.layers > 0 && o.channels > 0;
  SizeLimit limit = given ? SizeLimit::kGiven : SizeLimit::kLargest;
  TrainOptions chosen = on_rung(o, kLadder[0]);
  for (const Shape3& rung : kLadder) {
    const TrainOptions candidate = on_rung(o, rung);
    const TransformerConfig config = model_config(candidate, facts.vocabulary).resolved();
    const auto weights = static_cast<double>(config.matrix_parameters());
    const double tokens = facts.total_tokens > 0 ? static_cast<double>(facts.total_tokens)
                                                 : affordable_steps(candidate, config, facts) *
                                                       static_cast<double>(step_tokens(candidate));
    const bool affordable = tokens >= kTokensPerParameter * weights;
    const bool fed = weights <= 2 * static_cast<double>(facts.train_tokens);
    const bool fitting = fits(candidate, config, facts, divide_batch);
    if (!affordable || !fed || !fitting) {
      if (!given) limit = !affordable ? SizeLimit::kTime : !fed ? SizeLimit::kText : SizeLimit::kMemory;
      break;
    }
    chosen = candidate;
  }
  o = chosen;
  return limit;
}

void choose_length(TrainOptions& o, const RunFacts& facts, const TransformerConfig& config) {
  if (o.steps > 0) return;
  if (facts.total_tokens > 0) {
    o.steps = divide_up(facts.total_tokens, step_tokens(o));
    return;
  }
  const double passes = static_cast<double>(kMostPasses) * static_cast<double>(facts.train_tokens) /
                        static_cast<double>(step_tokens(o));
  const auto steps =
      static_cast<int64_t>(std::min({affordable_steps(o, config, facts), std::max(passes, 200.0), 1e9}));
  // Two leading digits: the same data and machine give the same round number in spite of noisy measurements.
  const int64_t unit = steps >= 1000 ? 100 : steps >= 100 ? 10 : 1;
  o.steps = std::max<int64_t>(steps / unit * unit, 1);
}

void choose_rates(TrainOptions& o, const TransformerConfig& config) {
  const int64_t weights = config.matrix_parameters();
  const bool small = weights < 200'000, large = weights >= 30'000'000;
  // RMS norm, rotary positions and gates bear three times the rate of GPT-2's block at 128 channels, and then
  // learn twice as fast (docs/performance.md has the runs). Adam's best rate falls as the width grows: Yang
  // et al. (2022), "Tensor Programs V"; at 256 channels 3e-3 already learns less than 1e-3.
  if (o.learning_rate == 0 && o.arch == "llama")
    o.learning_rate = std::max(6e-4f, 3e-3f * 128 / static_cast<float>(std::max<int64_t>(o.channels, 128)));
  if (o.learning_rate == 0) o.learning_rate = small ? 3e-3f : large ? 6e-4f : 1e-3f;
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
  if (o.sample_every < 0) o.sample_every = std::max<int64_t>(o.steps / 5, 1);
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

void choose_memory(TrainOptions& o, const TransformerConfig& config, const RunFacts& facts,
                   bool divide_batch) {
  if (facts.memory == 0) {
    if (o.checkpointing.empty()) o.checkpointing = name_of(Checkpointing::kNone);
    return;
  }
  std::vector<std::string_view> levels = {o.checkpointing};
  if (o.checkpointing.empty()) levels = {"none", "selective", "block"};
  const int64_t windows = checked_multiply(o.batch, o.accumulate);
  TrainOptions least = o, fastest = o;
  int64_t least_bytes = std::numeric_limits<int64_t>::max();
  double least_seconds = std::numeric_limits<double>::infinity();
  for (int64_t batch = o.batch; batch >= 1; batch = divide_batch ? batch - 1 : 0) {
    if (windows % batch != 0) continue;
    for (const std::string_view level : levels) {
      TrainOptions candidate = o;
      candidate.batch = batch;
      candidate.accumulate = windows / batch;
      candidate.checkpointing = level;
      const int64_t bytes = Trainer::plan_memory(config, candidate, facts.threads).total();
      const double seconds = expected_step_time(config, candidate, facts.gflops).total();
      if (bytes < least_bytes) least = candidate, least_bytes = bytes;
      if (bytes <= facts.memory && seconds < least_seconds) fastest = candidate, least_seconds = seconds;
    }
  }
  o = least_bytes <= facts.memory ? fastest : least;
}

SizeLimit choose_sizes(TrainOptions& o, const RunFacts& facts) {
  check_options(o);
  set(o.context, 128);
  // What was given stays: a batch, or the number of micro-batches.
  const bool divide_batch = o.batch == 0 && o.accumulate == 1;
  if (o.batch == 0) o.batch = std::clamp<int64_t>(kTokensPerStep / o.context / o.accumulate, 1, 64);
  const SizeLimit limit = choose_shape(o, facts, divide_batch);
  const TransformerConfig config = model_config(o, facts.vocabulary).resolved();
  o.kv_heads = config.kv_heads;
  o.head_size = config.head_size;
  o.mlp_hidden = config.mlp_hidden;
  choose_memory(o, config, facts, divide_batch);
  choose_length(o, facts, config);
  choose_rates(o, config);
  choose_intervals(o, facts);
  return limit;
}

}  // namespace tril
