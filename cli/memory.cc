#include "cli/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <functional>
#include <limits>
#include <optional>

#include "cli/command.h"
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

int64_t process_bytes() {
  constexpr int64_t kFirstStep = 8'000'000;  // measured: 8.3 MB with one thread, 8.4 with two
  std::ifstream file("/proc/self/statm");
  int64_t virtual_pages = 0, resident_pages = 0;
  file >> virtual_pages >> resident_pages;
  return resident_pages * sysconf(_SC_PAGE_SIZE) + kFirstStep;
}

int64_t parse_bytes(std::string_view where, std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"k", 1e3},  {"kb", 1e3},  {"m", 1e6},    {"mb", 1e6},      {"g", 1e9},         {"gb", 1e9},
      {"t", 1e12}, {"tb", 1e12}, {"kib", 1024}, {"mib", 1048576}, {"gib", 1073741824}};
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  std::string unit(text.substr(digits));
  if (unit.starts_with(' ')) unit.erase(0, 1);
  for (char& letter : unit)
    if ('A' <= letter && letter <= 'Z') letter += 'a' - 'A';
  const auto known =
      std::find_if(std::begin(kUnits), std::end(kUnits), [&](const auto& u) { return u.first == unit; });
  check_use(digits > 0 && known != std::end(kUnits), "{} '{}': not a size; give one such as 4G or 500M",
            where, text);
  return static_cast<int64_t>(parse_number(where, text.substr(0, digits), {1e-3, 1e6}) * known->second);
}

double available_memory() {
  double bytes = free_of_machine();
  const double limit = read_number("/sys/fs/cgroup/memory.max");  // "max": none
  const double used = read_number("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) bytes = std::min(bytes, std::max(limit - used + reclaimable(), 0.0));
  return bytes;
}

// A part of what is free stays free: for the text, and for what else runs.
constexpr double kUsable = 0.95;

MemoryLimit free_memory() { return {.bytes = kUsable * available_memory()}; }

MemoryLimit asked_memory(int64_t asked) {
  return {.bytes = std::max(static_cast<double>(asked - process_bytes()), 0.0), .asked = asked};
}

namespace {

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

// One size made smaller: of those that suffice alone the one that is largest beside GPT-2's; or before all of
// them activation checkpointing, which changes no result.
struct Proposal {
  std::string name;
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

// "--checkpointing block would fit", or whatever else would. `others_chosen`: the sizes that are not given
// count as small, so that one that would fit is the largest that can.
std::string advice(const TransformerConfig& config, const TrainOptions& options, int threads, double limit,
                   bool others_chosen) {
  if (checkpointing_of(options) != Checkpointing::kBlock) {
    TrainOptions with = options;
    with.checkpointing = name_of(Checkpointing::kBlock);
    if (training_bytes(config, with, threads) <= limit) return "--checkpointing block would fit";
  }
  const Proposal proposal = propose(config, options, threads, limit);
  if (proposal.fits == 0) return kSmallSizes;
  return others_chosen ? fmt::format("{} can be at most {}", proposal.name, proposal.fits)
                       : fmt::format("{} {} would fit", proposal.name, proposal.fits);
}

// What is missing, if anything is.
struct Shortage {
  std::string needed, usable, advice;  // as text, with units
};

std::optional<Shortage> find_shortage(const TransformerConfig& config, const TrainOptions& options,
                                      int threads, const MemoryLimit& limit, bool others_chosen) {
  const double needed = training_bytes(config, options, threads);
  if (needed <= limit.bytes) return std::nullopt;
  std::string usable = format_bytes(limit.bytes) + " can be used";
  if (limit.asked > 0)
    usable += fmt::format(" of --memory {}, beside the program itself",
                          format_bytes(static_cast<double>(limit.asked)));
  // What is asked for does not change; what is free does.
  const double proposed = limit.asked > 0 ? limit.bytes : kProposed / kUsable * limit.bytes;
  return Shortage{std::isfinite(needed) ? format_bytes(needed) : "more than can be counted", usable,
                  advice(config, options, threads, proposed, others_chosen)};
}

}  // namespace

void check_memory(const TransformerConfig& given, const TrainOptions& options, int threads,
                  const MemoryLimit& limit) {
  const TransformerConfig config = given.resolved();
  const std::optional<Shortage> shortage =
      find_shortage(config, options, threads, limit, /*others_chosen=*/false);
  if (!shortage) return;
  fail(ErrorKind::kUse,
       "not enough memory: training {} layers of {} channels ({} heads, context {}, vocabulary {}) with "
       "--batch {} --checkpointing {} takes {}, {}; {}",
       config.layers, config.channels, config.heads, config.context, config.vocabulary, options.batch,
       name_of(checkpointing_of(options)), shortage->needed, shortage->usable, shortage->advice);
}

void check_given_sizes(const TrainOptions& o, int threads, const MemoryLimit& limit) {
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
  if (limit.asked > 0 && o.checkpointing.empty()) small.checkpointing = name_of(Checkpointing::kBlock);
  const std::optional<Shortage> shortage = find_shortage(c, small, threads, limit, /*others_chosen=*/true);
  if (!shortage) return;
  fail(ErrorKind::kUse,
       "not enough memory: with the sizes that are given, and the others as small as can be, training takes "
       "{}; {}; {}",
       shortage->needed, shortage->usable, shortage->advice);
}

}  // namespace tril::cli
