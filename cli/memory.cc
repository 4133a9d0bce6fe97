#include "cli/memory.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <limits>

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

}  // namespace

double available_memory() {
  double bytes = free_of_machine();
  const double limit = read_number("/sys/fs/cgroup/memory.max");
  const double used = read_number("/sys/fs/cgroup/memory.current");
  if (limit > 0 && used >= 0) bytes = std::min(bytes, std::max(limit - used, 0.0));
  return bytes;
}

namespace {

// Infinite where a count does not fit 64 bits or the model does not allow the size.
double training_bytes(const TransformerConfig& config, const TrainOptions& options, int threads) {
  try {
    return static_cast<double>(Trainer::plan_memory(config, options, threads).total());
  } catch (const Error&) {
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

void check_memory(const TransformerConfig& given, const TrainOptions& options, int threads) {
  const TransformerConfig config = given.resolved();
  const double limit = 0.95 * available_memory();
  const double needed = training_bytes(config, options, threads);
  if (needed <= limit) return;

  // One size made smaller, the one that is furthest from usual first: the first that suffices is proposed.
  struct Choice {
    const char* name;
    int64_t now, step;
    std::function<double(int64_t)> bytes;
  };
  const auto with = [&](auto change) {
    return [=](int64_t value) {
      TransformerConfig smaller = config;
      TrainOptions with_batch = options;
      change(smaller, with_batch.batch, value);
      return training_bytes(smaller, with_batch, threads);
    };
  };
  const Choice choices[] = {
      {"--layers", config.layers, 1, with([](auto& c, auto&, int64_t v) { c.layers = v; })},
      {"--batch", options.batch, 1, with([](auto&, auto& b, int64_t v) { b = v; })},
      {"--context", config.context, 8, with([](auto& c, auto&, int64_t v) { c.context = v; })},
      {"--channels", config.channels, config.heads, with([](auto& c, auto&, int64_t v) {
         c.head_size = std::max<int64_t>(v / c.heads, 1);
         c.mlp_hidden = 4 * v;
         c.channels = v;
       })},
      {"--mlp-hidden", config.mlp_hidden, 1, with([](auto& c, auto&, int64_t v) { c.mlp_hidden = v; })},
      {"--head-size", config.head_size, 1, with([](auto& c, auto&, int64_t v) { c.head_size = v; })},
      {"--vocab", config.vocabulary, 256, with([](auto& c, auto&, int64_t v) { c.vocabulary = v; })},
  };
  std::string advice =
      "use smaller sizes, such as --layers 4 --heads 4 --channels 256 --context 256 --batch 16";
  double best = 0;
  for (const Choice& choice : choices) {
    int64_t fits = 0, fails = choice.now;
    while (fails - fits > 1) {
      const int64_t middle = fits + (fails - fits) / 2;
      (choice.bytes(middle) <= limit ? fits : fails) = middle;
    }
    fits = fits / choice.step * choice.step;
    const double ratio = fits > 0 ? static_cast<double>(choice.now) / static_cast<double>(fits) : 0;
    if (ratio > best) {
      best = ratio;
      advice = fmt::format("{} {} would fit", choice.name, fits);
    }
  }
  fail(ErrorKind::kUse,
       "not enough memory: training {} layers of {} channels ({} heads, context {}, vocabulary {}) with "
       "--batch {} takes {}, {} are available; {}",
       config.layers, config.channels, config.heads, config.context, config.vocabulary, options.batch,
       std::isfinite(needed) ? format_bytes(needed) : "more than can be counted", format_bytes(limit / 0.95),
       advice);
}

void check_given_sizes(const TrainOptions& o, int threads) {
  const auto given_or = [](int64_t given, int64_t small) { return given > 0 ? given : small; };
  TransformerConfig c;
  c.layers = given_or(o.layers, 2);
  c.heads = given_or(o.heads, std::max<int64_t>(o.kv_heads, 1));
  c.channels = given_or(o.channels, std::max<int64_t>(64, c.heads));
  c.head_size = given_or(o.head_size, std::clamp<int64_t>(c.channels / c.heads, 1, 256));
  c.kv_heads = given_or(o.kv_heads, c.heads);
  c.mlp_hidden = given_or(o.mlp_hidden, 4 * c.channels);
  c.context = given_or(o.context, 8);
  c.vocabulary = given_or(o.vocab, 256);
  TrainOptions small = o;
  small.batch = given_or(o.batch, 1);
  check_memory(c, small, threads);
}

}  // namespace tril::cli
