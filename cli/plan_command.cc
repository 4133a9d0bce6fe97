#include <algorithm>
#include <cmath>
#include <cstdio>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/memory.h"
#include "cli/plan_table.h"
#include "cli/train_report.h"
#include "tril/train/scaling.h"

namespace tril::cli {
namespace {

constexpr const char* kDescription =
    "What training would take, before anything of its size is allocated: memory by class, what\n"
    "each layer keeps for backward, operations, time. With a text: what would be trained, and why.";
constexpr const char* kExamples =
    "  tril plan --preset gpt2-b4t256                        memory and time of a step\n"
    "  tril plan book.txt                                    what tril train book.txt would do\n"
    "  tril plan texts/ --hours 8 --memory 4G                what fits, and why\n"
    "  tril plan --layers 12 --channels 768 --context 1024 --checkpointing block --json";

std::string step_duration(double seconds) {
  return seconds < 1 ? fmt::format("{:.3g} ms", 1e3 * seconds) : format_duration(seconds);
}

std::string speed_text(const TrainRun& run, const Plan& plan) {
  const auto part = [&](double seconds) { return 100 * seconds / plan.step.total(); };
  const double tokens = static_cast<double>(plan.step_tokens);
  std::string text =
      fmt::format("compute   {:.3g} MFLOP a token, {:.3g} GFLOP a step{}\n", plan.step_flops / tokens * 1e-6,
                  plan.step_flops * 1e-9,
                  plan.recomputed_flops > 0 ? fmt::format("; with what is computed again {:.3g} ({:+.0f} %)",
                                                          (plan.step_flops + plan.recomputed_flops) * 1e-9,
                                                          100 * plan.recomputed_flops / plan.step_flops)
                                            : "");
  const double gflops = plan.step_flops / plan.step.total() * 1e-9;
  text += fmt::format(
      "speed     about {} tokens/s, {} a step, {:.0f} % of the peak\n"
      "time      products {:.0f} %, attention {:.0f} %, passes over rows {:.0f} %, weights {:.0f} %, threads "
      "{:.0f} %\n",
      format_count(static_cast<int64_t>(plan.tokens_per_second)), step_duration(plan.step.total()),
      100 * gflops / run.machine.fma_peak_gflops, part(plan.step.products), part(plan.step.attention),
      part(plan.step.rows), part(plan.step.weights), part(plan.step.regions));
  return text;
}

// What the run's length means for its size and its text.
struct Advice {
  double tokens_per_parameter = 0;
  double passes = 0;         // over the text
  double worth = 0;          // different tokens that the passes are worth
  double expected_loss = 0;  // nats a token, 0: none can be given
};

// The fit is for tokens of a large byte-pair vocabulary, and says nothing far below the models it was made
// with, or where it is worse than guessing among 32,000.
constexpr double kLeastParameters = 5e6, kGuessing = 10.37;

Advice advise(const TrainRun& run, const Plan& plan) {
  Advice advice;
  const double tokens = static_cast<double>(run.options.steps) * static_cast<double>(plan.step_tokens);
  const auto parameters = static_cast<double>(plan.parameters);
  advice.tokens_per_parameter = tokens / parameters;
  advice.worth = tokens;
  if (run.has_text) {
    const auto text = static_cast<double>(run.corpus.train_size());
    advice.passes = tokens / text;
    advice.worth = effective_tokens(text, advice.passes);
  }
  if (run.options.tokenizer == "bpe" && parameters >= kLeastParameters)
    advice.expected_loss = hoffmann_loss(parameters, advice.worth);
  if (advice.expected_loss > kGuessing) advice.expected_loss = 0;
  return advice;
}

std::string_view limit_text(SizeLimit limit) {
  switch (limit) {
    case SizeLimit::kGiven:
      return "as given";
    case SizeLimit::kTime:
      return "the next larger one would see too few tokens in this time";
    case SizeLimit::kText:
      return "the next larger one would be too large for this text";
    case SizeLimit::kMemory:
      return "the next larger one does not fit the memory";
    case SizeLimit::kLargest:
      break;
  }
  return "the largest that is chosen without being asked for";
}

std::string advice_text(const TrainRun& run, const Advice& advice) {
  std::string text = fmt::format("size      {}\n", limit_text(run.limit));
  text += fmt::format("tokens    {:.3g} for each parameter; ", advice.tokens_per_parameter);
  if (advice.tokens_per_parameter < kOptimalTokensPerParameter / 2)
    text +=
        fmt::format("about {:.0f} give the lowest loss for the same computing", kOptimalTokensPerParameter);
  else if (advice.tokens_per_parameter < kOptimalTokensPerParameter * 2)
    text += fmt::format("near the {:.0f} that give the lowest loss for the same computing",
                        kOptimalTokensPerParameter);
  else
    text += fmt::format(
        "more than the {:.0f} that give the lowest loss for the same computing: the model stays "
        "small for its training, and fast to use",
        kOptimalTokensPerParameter);
  text += " (Hoffmann et al. 2022)\n";
  if (run.has_text) {
    text += fmt::format("text      read {:.3g} times, ", advice.passes);
    if (advice.passes <= kGoodPasses)
      text += fmt::format("nearly as good as new text up to {:.0f} times", kGoodPasses);
    else
      text += fmt::format(
          "worth {:.1f} times; {} MB of such text would be read {:.0f} times",
          advice.worth / static_cast<double>(run.corpus.train_size()),
          format_count(static_cast<int64_t>(
              std::ceil(static_cast<double>(run.corpus.train_bytes) * advice.passes / kGoodPasses * 1e-6))),
          kGoodPasses);
    text += " (Muennighoff et al. 2023)\n";
  }
  if (advice.expected_loss > 0)
    text += fmt::format(
        "loss      {:.2f} nats a token if this were web text in 32,000 byte-pair ids and the model "
        "of the sizes that were fitted (Hoffmann et al.: 70 million parameters and more)\n",
        advice.expected_loss);
  return text;
}

Json kept_json(const KeptTable& table) {
  Json rows = Json::array();
  for (const KeptRow& row : table.rows)
    rows.push_back({{"what", row.what},
                    {"shape", row.shape},
                    {"bytes", row.bytes},
                    {"kept", row.kept},
                    {"how", row.how}});
  return rows;
}

}  // namespace

int plan_command(const Arguments& words) {
  TrainArguments arguments;
  if (!parse_run_arguments({"plan", kDescription, kExamples, RunCommand::Purpose::kPlan}, words, arguments))
    return 0;
  ThreadPool pool(static_cast<int>(arguments.threads));
  const TrainRun run = prepare_plan(arguments, pool);
  const Plan plan = make_plan(arguments, run);
  const KeptTable table = kept_table(run.config, run.options);
  const Advice advice = advise(run, plan);
  if (arguments.json) {
    Json line = plan_json(arguments, run, plan);
    line["estimated_step_seconds"] = {{"products", plan.step.products}, {"attention", plan.step.attention},
                                      {"rows", plan.step.rows},         {"weights", plan.step.weights},
                                      {"threads", plan.step.regions},   {"total", plan.step.total()}};
    line["layer"] = kept_json(table);
    line["tokens_per_parameter"] = advice.tokens_per_parameter;
    if (run.has_text) line["passes"] = advice.passes;
    if (advice.expected_loss > 0) line["expected_loss_nats_of_web_text"] = advice.expected_loss;
    std::puts(to_text(line).c_str());
    return 0;
  }
  const TrainOptions& o = run.options;
  std::string text = plan_text(arguments, run, plan);
  text += fmt::format("step      {} micro-batch{} of {} x {} tokens, --checkpointing {}\n", o.accumulate,
                      o.accumulate == 1 ? "" : "es", o.batch, o.context, o.checkpointing);
  if (const double free = free_memory().bytes; static_cast<double>(plan.total_bytes) > free)
    text += fmt::format("free      {} here: not enough; --memory {:.0f}M makes it fit if anything does\n",
                        format_bytes(free), free * 1e-6);
  text += speed_text(run, plan);
  const bool length_given = arguments.hours > 0 || arguments.tokens > 0 || arguments.given.contains("steps");
  if (run.has_text || length_given) text += advice_text(run, advice);
  text += "\n" + kept_text(table, run.config.layers);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace tril::cli
