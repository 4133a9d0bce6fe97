#include "cli/train_report.h"

#include <cstdio>

#include "cli/format.h"
#include "tril/containers/json.h"
#include "tril/kernels/machine.h"
#include "tril/kernels/matmul.h"

namespace tril::cli {
namespace {

// A step reaches about this part of the speed of one large product; the progress line then measures.
constexpr double kStepEfficiency = 0.7;

const char* plural(int64_t count) { return count == 1 ? "" : "s"; }

struct Plan {
  Trainer::Memory memory;
  int64_t parameters = 0, step_tokens = 0, steps_left = 0;
  double seconds = 0;
};

Plan make_plan(const TrainArguments& arguments, const TrainRun& run) {
  const TrainOptions& o = run.options;
  Plan plan;
  plan.memory = Trainer::plan_memory(run.config, o, static_cast<int>(arguments.threads));
  plan.parameters = run.config.parameter_count();
  plan.step_tokens = o.accumulate * o.batch * o.context;
  plan.steps_left = o.steps - run.steps_done;
  const double flops = run.config.training_flops(o.batch, o.context) * static_cast<double>(o.accumulate);
  plan.seconds =
      flops * static_cast<double>(plan.steps_left) / (kStepEfficiency * 1e9 * run.machine.matmul_gflops);
  return plan;
}

void print_json(const TrainArguments& arguments, const TrainRun& run, const Plan& plan) {
  const Json line = {
      {"event", "plan"},
      {"out", run.out.string()},
      {"documents", run.corpus.documents},
      {"train_bytes", run.corpus.train_bytes},
      {"validation_bytes", run.corpus.validation_bytes},
      {"train_tokens", run.corpus.train.size()},
      {"validation_tokens", run.corpus.validation.size()},
      {"tokenizer", run.tokenizer->kind_name()},
      {"vocabulary", run.config.vocabulary},
      {"parameters", plan.parameters},
      {"memory_bytes",
       {{"parameters", plan.memory.parameters},
        {"gradients", plan.memory.gradients},
        {"moments", plan.memory.moments},
        {"activations", plan.memory.activations},
        {"scratch", plan.memory.scratch},
        {"total", plan.memory.total()}}},
      {"steps", run.options.steps},
      {"resumed_from_step", run.steps_done},
      {"damaged_checkpoints", run.damaged},
      {"estimated_seconds", plan.seconds},
      {"threads", arguments.threads},
      {"instruction_set", instruction_set()},
      {"fma_peak_gflops", run.machine.fma_peak_gflops},
      {"matmul_gflops", run.machine.matmul_gflops},
      {"options", parse_json(options_to_json(run.options))},
  };
  std::puts(to_text(line).c_str());
}

std::string program_and_data(const TrainArguments& arguments, const TrainRun& run) {
  std::string command = shell_quote(arguments.program) + " train";
  for (const std::string& path : arguments.data) command += " " + shell_quote(path);
  return command + " --out " + shell_quote(run.out.string());
}

}  // namespace

void print_plan(const TrainArguments& arguments, const TrainRun& run) {
  const Plan plan = make_plan(arguments, run);
  if (arguments.json) return print_json(arguments, run, plan);
  const TrainOptions& o = run.options;
  const TransformerConfig& c = run.config;
  const Corpus& corpus = run.corpus;
  std::string text;
  const auto line = [&](std::string_view what, const std::string& value) {
    text += fmt::format("{:<9} {}\n", what, value);
  };
  line("data", fmt::format("{} document{}, {}; {} tokens to train on, {} to validate{}", corpus.documents,
                           plural(corpus.documents),
                           format_bytes(static_cast<double>(corpus.train_bytes + corpus.validation_bytes)),
                           format_count(static_cast<int64_t>(corpus.train.size())),
                           format_count(static_cast<int64_t>(corpus.validation.size())),
                           run.skipped_empty > 0 ? fmt::format("; {} empty file{} skipped", run.skipped_empty,
                                                               plural(run.skipped_empty))
                                                 : ""));
  line("tokenizer", fmt::format("{}, {} ids", run.tokenizer->kind_name(), format_count(c.vocabulary)));
  line("model", fmt::format("{}: {} layer{}, {} head{} of {}, {} channels, context {}; {} parameters", o.arch,
                            c.layers, plural(c.layers), c.heads, plural(c.heads), c.head_size, c.channels,
                            c.context, format_count(plan.parameters)));
  const auto bytes = [](int64_t value) { return format_bytes(static_cast<double>(value)); };
  line("memory",
       fmt::format("{}: parameters {}, gradients {}, moments {}, activations {}, scratch {}",
                   bytes(plan.memory.total()), bytes(plan.memory.parameters), bytes(plan.memory.gradients),
                   bytes(plan.memory.moments), bytes(plan.memory.activations), bytes(plan.memory.scratch)));
  line("training",
       fmt::format("{} steps of {} tokens ({:.3g} passes over the data), learning rate {}; about {}",
                   format_count(o.steps), format_count(plan.step_tokens),
                   static_cast<double>(o.steps) * static_cast<double>(plan.step_tokens) /
                       static_cast<double>(corpus.train.size()),
                   o.learning_rate, format_duration(plan.seconds)));
  line("machine", fmt::format("{} thread{}, {}, {:.0f} GFLOP/s peak, products by {} at {:.0f}",
                              arguments.threads, plural(arguments.threads), instruction_set(),
                              run.machine.fma_peak_gflops, matmul_engine(), run.machine.matmul_gflops));
  line("out", one_line(run.out.string()));
  if (run.checkpoint) {
    text += "\n";
    for (const std::string& damage : run.damaged)
      text += one_line("warning: passed over a damaged save: " + damage) + "\n";
    text += fmt::format("resuming from step {}\n", run.steps_done);
  }
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::string generate_line(const TrainArguments& arguments, const TrainRun& run) {
  return fmt::format("{} generate {} --prompt {}", shell_quote(arguments.program),
                     shell_quote(run.out.string()),
                     run.first_word.empty() ? "''" : "\"" + run.first_word + "\"");
}

void print_already_finished(const TrainArguments& arguments, const TrainRun& run) {
  if (arguments.json) {
    const Json line = {{"event", "finished"}, {"out", run.out.string()}, {"step", run.steps_done}};
    std::puts(to_text(line).c_str());
    return;
  }
  fmt::print(
      "This run is finished: {} holds all {} steps.\n"
      "  write text       {}\n"
      "  train longer     {} --resume --steps {}\n"
      "  start anew       the same command with another --out, or remove {}\n",
      one_line(run.out.string()), run.steps_done, generate_line(arguments, run),
      program_and_data(arguments, run), 2 * run.steps_done, one_line(run.out.string()));
}

}  // namespace tril::cli
