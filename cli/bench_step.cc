#include <sys/resource.h>

#include <algorithm>

#include "cli/bench.h"
#include "cli/memory.h"
#include "tril/kernels/machine.h"
#include "tril/train/defaults.h"
#include "tril/train/step_time.h"
#include "tril/train/trainer.h"

namespace tril::cli {

namespace {

// What a part of a step takes, and the share of what the machine could do in that time: of the FMA peak, or
// of the memory's bandwidth (more where its data lies in a cache).
struct Limits {
  double gflops, gb_per_s;
};

Json part_row(const Profile::Part& part, int64_t steps, double step_seconds, const Limits& limits) {
  const Work& w = part.work;
  const double seconds = part.seconds / static_cast<double>(steps);
  const double per_second = static_cast<double>(part.calls) / part.seconds * 1e-9;
  std::string name = w.name;
  if (w.rows > 0) name += fmt::format(", {} rows, {} -> {}", w.rows, w.in, w.out);
  Json row = {{"part", name},
              {"ms", seconds * 1e3},
              {"step_fraction", seconds / step_seconds},
              {"calls", part.calls / steps}};
  row["gflops"] = w.operations > 0 ? Json(w.operations * per_second) : Json();
  row["gb_per_s"] = w.bytes > 0 ? Json(w.bytes * per_second) : Json();
  row["limit_fraction"] =
      std::max(w.operations * per_second / limits.gflops, w.bytes * per_second / limits.gb_per_s);
  return row;
}

// The longest first. All `steps` together took `seconds`.
Json part_rows(const Profile& profile, int64_t steps, double seconds, const Limits& limits) {
  std::vector<Profile::Part> parts = profile.parts();
  std::sort(parts.begin(), parts.end(), [](auto& a, auto& b) { return a.seconds > b.seconds; });
  Json rows = Json::array();
  double rest = seconds;
  for (const Profile::Part& part : parts) {
    rows.push_back(part_row(part, steps, seconds / static_cast<double>(steps), limits));
    rest -= part.seconds;
  }
  rows.push_back({{"part", "the rest"},
                  {"ms", rest / static_cast<double>(steps) * 1e3},
                  {"step_fraction", rest / seconds}});
  return rows;
}

}  // namespace

void bench_step(const BenchOptions& options, Executor& executor) {
  const Preset& preset = find_preset(options.preset);
  TrainOptions o = preset_options(preset, options.arch);
  o.steps = 1 << 30;
  o.learning_rate = 3e-4f;
  o.schedule = "constant";
  o.warmup = 0;
  o.val_fraction = 0;
  const TransformerConfig config = model_config(o, preset.vocabulary).resolved();
  check_memory(config, o, executor.threads(), free_memory());
  std::vector<int32_t> tokens(static_cast<size_t>(o.batch * (o.context + 1)) * 8);
  const RandomStream random(1, "bench tokens");
  for (size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<int32_t>(random.below(i, static_cast<uint64_t>(config.vocabulary)));

  Transformer model(config);
  Parameters parameters(model);
  parameters.initialize(1);
  Optimizer optimizer(parameters, o);
  Session session(model, executor, o.batch, config.context);
  session.context().training = true;
  WindowSampler sampler(tokens, o.batch, config.context, 1);
  int64_t step = 0;
  const auto forward_backward = [&] {
    Batch batch = sampler.sample(step);
    batch.counted_targets = batch.rows();
    session.context().step = static_cast<uint64_t>(step);
    model.forward_backward(session.context(), batch, session.state());
  };
  Peak peak(executor);
  const double whole = median_seconds(options.seconds, [&] {
    forward_backward();
    optimizer.update(executor, step++);
  });
  const double update = median_seconds(options.seconds / 10, [&] { optimizer.update(executor, step++); });
  Profile profile;
  session.context().profile = &profile;
  int64_t profiled = 0;
  const double start = now();
  for (; profiled < 3 || now() < start + options.seconds / 2; ++profiled) {
    forward_backward();
    const Profile::Timer timer = session.context().timer(
        {.name = "optimizer", .bytes = 36.0 * static_cast<double>(config.parameter_count())});
    optimizer.update(executor, step++);
  }
  const double profiled_seconds = now() - start;
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);  // before the bandwidth's own 256 MiB
  const Limits limits{peak.measure(), measure_read_bandwidth(executor)};
  const double product_gflops = measure_matmul_gflops(executor, 1024, 0.1);
  const double expected = expected_step_time(config, o, product_gflops).total();
  const double gflops = config.training_flops(o.batch, config.context) / whole * 1e-9;
  Json row = {{"preset", preset.name},
              {"arch", config.architecture()},
              {"parameters", config.parameter_count()},
              {"tokens_per_s", static_cast<double>(o.batch * config.context) / whole},
              {"expected_tokens_per_s", static_cast<double>(o.batch * config.context) / expected},
              {"gflops", gflops},
              {"peak_fraction", gflops / limits.gflops},
              {"peak_rss_bytes", int64_t{usage.ru_maxrss} * 1024},
              {"step_seconds", whole},
              {"forward_backward_seconds", whole - update},
              {"optimizer_seconds", update},
              {"read_gb_per_s", limits.gb_per_s}};
  const Json parts = part_rows(profile, profiled, profiled_seconds, limits);
  if (options.json) row["parts"] = parts;
  BenchTable(options.json).row(row);
  if (options.json) return;
  std::puts("");
  BenchTable table(false, 38);
  for (const Json& part : parts) table.row(part);
}

}  // namespace tril::cli
