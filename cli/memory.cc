#include "cli/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>

#include "cli/format.h"
#include "tril/base/error.h"
#include "tril/train/trainer.h"

namespace tril::cli {
namespace {

double read_number(const char* path) {
  std::ifstream file(path);
  double value = -1;
  file >> value;
  return file ? value : -1;
}

double free_of_machine() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  for (double kilobytes = 0; file >> name >> kilobytes; std::getline(file, unit))
    if (name == "MemAvailable:") return kilobytes * 1024;
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

// Of the control group's use: copies of files, which go when memory is needed.
double reclaimable() {
  std::ifstream file("/sys/fs/cgroup/memory.stat");
  std::string name;
  for (double bytes = 0; file >> name >> bytes;)
    if (name == "inactive_file") return bytes;
  return 0;
}

}  // namespace

double available_memory() {
  double bytes = free_of_machine();
  const double limit = read_number("/sys/fs/cgroup/memory.max");  // "max": none
  const double used = read_number("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) bytes = std::min(bytes, std::max(limit - used + reclaimable(), 0.0));
  return bytes;
}

namespace {

// A part of what is free stays free: for the text, and for what else runs.
constexpr double kUsable = 0.95;
// A proposal leaves more, since what is free changes from one moment to the next.
constexpr double kProposed = 0.85;
constexpr const char* kSmallSizes =
    "use smaller sizes, such as --layers 4 --heads 4 --channels 256 --context 256 --batch 16";

double planned_bytes(TransformerConfig config, int64_t layers, const TrainOptions& options, int threads) {
  config.layers = layers;
  return static_cast<double>(Trainer::plan_memory(config, options, threads).total());
}

// Infinite where a count does not fit 64 bits or the model does not allow the size. Every layer after the
// first adds the same.
double training_bytes(const TransformerConfig& config, const TrainOptions& options, int threads) {
  try {
    config.resolved();
    const double one = planned_bytes(config, 1, options, threads);
    const double two = planned_bytes(config, 2, options, threads);
    return one + static_cast<double>(config.layers - 1) * (two - one);
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

// One size made smaller: of those that suffice alone the one that is largest beside GPT-2's.
struct Proposal {
  const char* name = "";
  int64_t fits = 0;  // 0: no size alone suffices
};

Proposal propose(const TransformerConfig& config, const TrainOptions& options, int threads, double limit) {
  struct Choice {
    const char* name;
    int64_t now, usual, step;
    std::function<void(TransformerConfig&, TrainOptions&, int64_t)> set;
  };
  const Choice choices[] = {
      {"--layers", config.layers, 12, 1, [](auto& c, auto&, int64_t v) { c.layers = v; }},
      {"--batch", options.batch, 64, 1, [](auto&, auto& o, int64_t v) { o.batch = v; }},
      {"--context", config.context, 1024, 8, [](auto& c, auto&, int64_t v) { c.context = v; }},
      {"--channels", config.channels, 768, config.heads,
       [](auto& c, auto&, int64_t v) {
         // What follows the channels unless it is given.
         if (c.head_size == c.channels / c.heads) c.head_size = std::max<int64_t>(v / c.heads, 1);
         if (c.mlp_hidden == 4 * c.channels) c.mlp_hidden = 4 * v;
         c.channels = v;
       }},
      {"--mlp-hidden", config.mlp_hidden, 3072, 1, [](auto& c, auto&, int64_t v) { c.mlp_hidden = v; }},
      {"--head-size", config.head_size, 64, 1, [](auto& c, auto&, int64_t v) { c.head_size = v; }},
      {"--vocab", config.vocabulary, 50257, 256, [](auto& c, auto&, int64_t v) { c.vocabulary = v; }},
  };
  Proposal best;
  double most = 0;
  for (const Choice& choice : choices) {
    int64_t fits = 0, fails = choice.now;
    while (fails - fits > 1) {
      const int64_t middle = fits + (fails - fits) / 2;
      TransformerConfig smaller = config;
      TrainOptions with_batch = options;
      choice.set(smaller, with_batch, middle);
      (training_bytes(smaller, with_batch, threads) <= limit ? fits : fails) = middle;
    }
    fits = fits / choice.step * choice.step;
    const double excess = static_cast<double>(choice.now) / static_cast<double>(choice.usual);
    if (fits > 0 && excess > most) {
      most = excess;
      best = {choice.name, fits};
    }
  }
  return best;
}

// What is missing, if anything is.
struct Shortage {
  std::string needed, usable;  // as text, with units
  Proposal proposal;
};

std::optional<Shortage> find_shortage(const TransformerConfig& config, const TrainOptions& options,
                                      int threads) {
  const double free = available_memory();
  const double needed = training_bytes(config, options, threads);
  if (needed <= kUsable * free) return std::nullopt;
  return Shortage{std::isfinite(needed) ? format_bytes(needed) : "more than can be counted",
                  format_bytes(kUsable * free), propose(config, options, threads, kProposed * free)};
}

}  // namespace

void check_memory(const TransformerConfig& given, const TrainOptions& options, int threads) {
  const TransformerConfig config = given.resolved();
  const std::optional<Shortage> shortage = find_shortage(config, options, threads);
  if (!shortage) return;
  fail(ErrorKind::kUse,
       "not enough memory: training {} layers of {} channels ({} heads, context {}, vocabulary {}) with "
       "--batch {} takes {}, {} can be used; {}",
       config.layers, config.channels, config.heads, config.context, config.vocabulary, options.batch,
       shortage->needed, shortage->usable,
       shortage->proposal.fits > 0
           ? fmt::format("{} {} would fit", shortage->proposal.name, shortage->proposal.fits)
           : kSmallSizes);
}

void check_given_sizes(const TrainOptions& o, int threads) {
  const auto given_or = [](int64_t given, int64_t small) { return given > 0 ? given : small; };
  TransformerConfig c;
  c.layers = given_or(o.layers, 1);
  c.heads = given_or(o.heads, std::max<int64_t>(o.kv_heads, 1));
  c.channels = given_or(o.channels, std::max<int64_t>(64, c.heads));
  // Heads that are not given will be as many as the channels need.
  const int64_t head_size = o.heads > 0 ? 0 : std::clamp<int64_t>(c.channels / c.heads, 1, 256);
  c.head_size = given_or(o.head_size, o.channels > 0 ? head_size : c.channels / c.heads);
  c.kv_heads = given_or(o.kv_heads, c.heads);
  c.mlp_hidden = given_or(o.mlp_hidden, 4 * c.channels);
  c.context = given_or(o.context, 8);
  c.vocabulary = given_or(o.vocab, 256);
  c = c.resolved();
  TrainOptions small = o;
  small.batch = given_or(o.batch, 1);
  const std::optional<Shortage> shortage = find_shortage(c, small, threads);
  if (!shortage) return;
  fail(ErrorKind::kUse,
       "not enough memory: with the sizes that are given, and the others as small as can be, training takes "
       "{}; "
       "{} can be used; {}",
       shortage->needed, shortage->usable,
       shortage->proposal.fits > 0
           ? fmt::format("{} can be at most {}", shortage->proposal.name, shortage->proposal.fits)
           : kSmallSizes);
}

}  // namespace tril::cli
