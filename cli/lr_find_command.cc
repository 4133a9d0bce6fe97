#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/command.h"
#include "cli/train_setup.h"
#include "tril/containers/json.h"
#include "tril/train/rate_sweep.h"

namespace tril::cli {
namespace {

constexpr const char* kDescription =
    "Looks for the learning rate of a run: its model, a fresh one or that of --from, takes a few steps, "
    "each\n"
    "at a higher rate, until the loss turns. Takes the options of tril train. Writes nothing.";
constexpr const char* kExamples =
    "  tril lr-find book.txt\n"
    "  tril lr-find book.txt --layers 4 --heads 4 --channels 128 --optimizer muon\n"
    "  tril lr-find texts/ --config run.toml --lowest 1e-5 --highest 0.1 --json";

constexpr int64_t kRows = 24, kBar = 50;

void print_json(const RateSweep& sweep) {
  Json points = Json::array();
  for (const RatePoint& p : sweep.points)
    points.push_back(
        {{"learning_rate", p.learning_rate}, {"loss_nats", p.loss}, {"smoothed_loss_nats", p.smoothed}});
  const auto or_null = [](const std::optional<double>& x) { return x ? Json(*x) : Json(nullptr); };
  std::puts(to_text({{"suggestion", or_null(sweep.suggestion)},
                     {"steepest_rate", or_null(sweep.steepest_rate)},
                     {"turning_rate", or_null(sweep.turning_rate)},
                     {"exploded", sweep.exploded},
                     {"points", points}})
                .c_str());
}

// A row for every few steps, with a bar as long as the smoothed loss is high.
void print_curve(const RateSweep& sweep) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const RatePoint& p : sweep.points) low = std::min(low, p.smoothed), high = std::max(high, p.smoothed);
  const auto count = std::ssize(sweep.points);
  const int64_t step = std::max<int64_t>(divide_up(count, kRows), 1);
  fmt::print("{:>9}  {:>8}\n", "rate", "loss");
  for (int64_t i = (count - 1) % step; i < count; i += step) {
    const RatePoint& p = sweep.points[static_cast<size_t>(i)];
    const double part = high > low ? (p.smoothed - low) / (high - low) : 0;
    const auto bar = static_cast<size_t>(std::llround(part * kBar));
    fmt::print("{:>9.2g}  {:>8.4f}  {}\n", p.learning_rate, p.smoothed, std::string(bar, '#'));
  }
}

void print_suggestion(const RateSweep& sweep, const RateSweepOptions& options) {
  if (!sweep.suggestion) {
    fmt::print("\nThe loss fell at no rate; look with another --lowest and --highest.\n");
    return;
  }
  const std::string steepest =
      sweep.steepest_rate ? fmt::format("fell fastest at {:.2g} and ", *sweep.steepest_rate) : "";
  fmt::print("\nThe loss {}was lowest at {:.2g}{}. For a whole run try\n  --learning-rate {:.2g}\n", steepest,
             *sweep.turning_rate,
             sweep.exploded ? "" : fmt::format(" and never turned for good up to {:.2g}", options.highest),
             *sweep.suggestion);
}

}  // namespace

int lr_find_command(const Arguments& words) {
  TrainArguments arguments;
  RateSweepOptions options;
  const auto own_options = [&](CommandLine& line) {
    line.number("--lowest", options.lowest, {1e-12, 100}, "learning rate of the first step (1e-6)");
    line.number("--highest", options.highest, {1e-12, 100}, "learning rate of the last step (1)");
    line.count("--sweep-steps", options.steps, {10, 10'000}, "steps from the one to the other (200)");
  };
  if (!parse_run_arguments({"lr-find", kDescription, kExamples, RunCommand::Purpose::kSweep, own_options},
                           words, arguments))
    return 0;
  check_use(options.lowest < options.highest, "--lowest {} is not below --highest {}; give a smaller one",
            options.lowest, options.highest);
  ThreadPool pool(static_cast<int>(arguments.threads));
  TrainRun run = prepare_run(arguments, pool);
  if (!arguments.json)
    fmt::print("{} layers, {} heads, {} channels, context {}; steps of {} tokens\n\n", run.config.layers,
               run.config.heads, run.config.channels, run.config.context,
               run.options.accumulate * run.options.batch * run.options.context);
  std::fflush(stdout);
  const RateSweep sweep = sweep_learning_rates(run.config, run.options, run.corpus, pool, options, {},
                                               run.start_model ? run.start_model->parameters.get() : nullptr);
  if (sweep.points.empty())
    fail(ErrorKind::kNumerics, "lr-find: the first step's loss is not finite; nothing can be learned so");
  if (arguments.json) {
    print_json(sweep);
    return 0;
  }
  print_curve(sweep);
  print_suggestion(sweep, options);
  return 0;
}

}  // namespace tril::cli
