#include <sys/resource.h>

#include "cli/bench.h"
#include "cli/memory.h"
#include "tril/train/defaults.h"
#include "tril/train/trainer.h"

namespace tril::cli {

void bench_step(const BenchOptions& options, Executor& executor) {
  const Preset& preset = find_preset(options.preset);
  TrainOptions o = preset_options(preset, options.arch);
  o.steps = 1 << 30;
  o.learning_rate = 3e-4f;
  o.schedule = "constant";
  o.warmup = 0;
  o.val_fraction = 0;
  const TransformerConfig config = model_config(o, preset.vocabulary).resolved();
  check_memory(config, o, executor.threads());
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
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const double gflops = config.training_flops(o.batch, config.context) / whole * 1e-9;
  BenchTable(options.json)
      .row({{"preset", preset.name},
            {"arch", config.architecture()},
            {"parameters", config.parameter_count()},
            {"tokens_per_s", static_cast<double>(o.batch * config.context) / whole},
            {"gflops", gflops},
            {"peak_fraction", gflops / peak.measure()},
            {"peak_rss_bytes", int64_t{usage.ru_maxrss} * 1024},
            {"step_seconds", whole},
            {"forward_backward_seconds", whole - update},
            {"optimizer_seconds", update}});
}

}  // namespace tril::cli
