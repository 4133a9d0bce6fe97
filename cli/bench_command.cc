#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cli/bench.h"
#include "cli/command.h"
#include "cli/doctor_checks.h"
#include "cli/near_name.h"
#include "tril/base/error.h"
#include "tril/containers/json.h"
#include "tril/kernels/machine.h"
#include "tril/text/bpe.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril bench step --preset char-4x128       whole training steps\n"
    "  tril bench generate runs/book             prompts read and tokens written in a second\n"
    "  tril bench generate runs/book --weights q8_0\n"
    "  tril bench attention --json               one JSON object a shape\n"
    "  tril bench tokenizer book.txt             text encoded, decoded and learned from in a second\n"
    "  tril bench matmul --preset gpt2-b4t256    the products of a step";

std::string cell(const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return to_text(value);
}

}  // namespace

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ssize(values) / 2;
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double median_seconds(double seconds, const std::function<void()>& call) {
  call();
  std::vector<double> times;
  const double end = now() + seconds;
  while (times.size() < 3 || (now() < end && times.size() < 10000)) {
    const double start = now();
    call();
    times.push_back(now() - start);
  }
  return median(std::move(times));
}

Tensor random_tensor(const char* name, int64_t count) {
  Tensor tensor({count});
  const std::vector<float> values = doctor_random(name, std::min<int64_t>(count, 1 << 20));
  for (int64_t i = 0; i < count; ++i) tensor.f32()[i] = values[static_cast<size_t>(i) % values.size()];
  return tensor;
}

double Peak::measure() {
  best_ = std::max(best_, measure_fma_peak_gflops(executor_));
  return best_;
}

void BenchTable::row(const Json& values) {
  if (json_) {
    std::puts(to_text(values).c_str());
  } else {
    std::string head, line;
    for (const auto& [name, value] : values.items()) {
      const size_t width = std::max<size_t>(name.size(), value.is_string() ? text_width_ : 8) + 2;
      head += fmt::format("{:<{}}", name, width);
      line += fmt::format("{:<{}}", cell(value), width);
    }
    if (!head_printed_) fmt::print("{}\n", head);
    head_printed_ = true;
    fmt::print("{}\n", line);
  }
  std::fflush(stdout);
}

int bench_command(const Arguments& words) {
  std::string what;
  BenchOptions options;
  int64_t threads = 0;
  CommandLine line("bench",
                   "Measures matrix products, attention, training steps, generation or tokenizers; medians, "
                   "and the part of\n"
                   "this machine's peak of fused multiply-adds, measured in the same run.",
                   kExamples);
  line.positional("WHAT", what, "matmul, attention, step, generate or tokenizer");
  line.positionals("NAME", options.files, "generate: a model's folder or file; tokenizer: files of text");
  line.text("--preset", options.preset, "NAME", "sizes of matmul and step (char-4x128)");
  line.text("--arch", options.arch, "NAME", "architecture of step: gpt, llama or classic (the preset's)");
  line.text("--tokenizer", options.tokenizer, "FILE", "of tokenizer, instead of one trained on the files");
  line.count("--vocab", options.vocabulary, {257, kMostBpeIds}, "ids of the one that is trained (8000)");
  options.weights.add_to(line);
  line.number("--seconds", options.seconds, {0.001, 3600}, "time for each measurement (2)");
  line.threads(threads);
  line.flag("--json", options.json, "one JSON object a line");
  if (!line.parse(words)) return 0;
  const std::vector<std::string> names = {"matmul", "attention", "step", "generate", "tokenizer"};
  check_use(std::count(names.begin(), names.end(), what) == 1,
            "tril bench: '{}' is not one of matmul, attention, step, generate, tokenizer{}", what,
            suggestion(what, names));
  check_use(options.preset.empty() || what == "matmul" || what == "step",
            "tril bench {}: --preset has no meaning here", what);
  check_use(options.arch.empty() || what == "step", "tril bench {}: --arch has no meaning here", what);
  for (const std::string name : {"--tokenizer", "--vocab"}) {
    check_use(!line.given(name) || what == "tokenizer", "tril bench {}: {} has no meaning here", what, name);
  }
  const bool takes_names = what == "generate" || what == "tokenizer";
  check_use(takes_names || options.files.empty(), "tril bench {}: '{}' has no meaning here", what,
            options.files.empty() ? "" : options.files.front());
  check_use(what != "generate" || options.files.size() == 1,
            "tril bench generate: {} models given; usage: tril bench generate MODEL", options.files.size());
  check_use(what != "tokenizer" || !options.files.empty(),
            "tril bench tokenizer: no file given; usage: tril bench tokenizer FILE...");
  check_use(!line.given("--weights") || what == "generate", "tril bench {}: --weights has no meaning here",
            what);
  if (options.preset.empty()) options.preset = "char-4x128";

  ThreadPool pool(static_cast<int>(threads));
  if (what == "matmul") bench_matmul(options, pool);
  if (what == "attention") {
    bench_attention(options, pool);
    bench_decode(options, pool);
  }
  if (what == "step") bench_step(options, pool);
  if (what == "generate") bench_generate(options, pool);
  if (what == "tokenizer") bench_tokenizer(options, pool);
  return 0;
}

}  // namespace tril::cli
