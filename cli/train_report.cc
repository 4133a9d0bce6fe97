#include "cli/train_report.h"

#include <cstdio>

#include "cli/format.h"
#include "cli/train_conversations.h"
#include "tril/kernels/machine.h"
#include "tril/kernels/matmul.h"

namespace tril::cli {
namespace {

const char* plural(int64_t count) { return count == 1 ? "" : "s"; }

std::string program_and_data(const TrainArguments& arguments, const TrainRun& run) {
  std::string command = shell_quote(arguments.program) + " train";
  for (const std::string& path : arguments.data) command += " " + shell_quote(path);
  return command + " --out " + shell_quote(run.out.string());
}

struct SourceShare {
  double part = 0;    // of the rows
  double passes = 0;  // over its tokens, in the whole run
};

// Of a mixture's sources, in the order of arguments.data.
std::vector<SourceShare> source_shares(const TrainRun& run, const Plan& plan) {
  const Corpus& corpus = run.corpus;
  double total = 0;
  for (const int64_t weight : corpus.weights) total += static_cast<double>(weight);
  const double tokens = static_cast<double>(run.options.steps) * static_cast<double>(plan.step_tokens);
  std::vector<SourceShare> shares;
  for (size_t s = 0; s < corpus.sources.size(); ++s) {
    const double part = static_cast<double>(corpus.weights[s]) / total;
    shares.push_back({part, part * tokens / static_cast<double>(corpus.sources[s].train_size())});
  }
  return shares;
}

}  // namespace

Plan make_plan(const TrainArguments& arguments, const TrainRun& run) {
  const TrainOptions& o = run.options;
  const auto micro_batches = static_cast<double>(o.accumulate);
  Plan plan;
  plan.memory = Trainer::plan_memory(run.config, o, static_cast<int>(arguments.threads));
  plan.total_bytes = checked_add(plan.memory.total(), run.process_bytes);
  plan.parameters = run.config.parameter_count();
  plan.step_tokens = o.accumulate * o.batch * o.context;
  plan.steps_left = o.steps - run.steps_done;
  plan.step_flops = micro_batches * run.config.training_flops(o.batch, o.context);
  plan.recomputed_flops =
      micro_batches * run.config.recomputed_flops(o.batch, o.context, checkpointing_of(o));
  plan.step = expected_step_time(run.config, o, run.machine.matmul_gflops);
  plan.tokens_per_second = static_cast<double>(plan.step_tokens) / plan.step.total();
  plan.seconds = static_cast<double>(plan.steps_left) * plan.step.total();
  return plan;
}

Json plan_json(const TrainArguments& arguments, const TrainRun& run, const Plan& plan) {
  const Trainer::Memory& memory = plan.memory;
  Json line = {{"event", "plan"}};
  if (run.has_text) {
    line["documents"] = run.corpus.documents;
    line["train_bytes"] = run.corpus.train_bytes;
    line["validation_bytes"] = run.corpus.validation_bytes;
    line["train_tokens"] = run.corpus.train_size();
    line["validation_tokens"] = run.corpus.validation_size();
    line["tokenizer"] = run.tokenizer->kind_name();
    if (const ConversationCorpus* c = run.corpus.conversations.get())
      line["conversations"] = {{"template", c->template_name},
                               {"train_learned_tokens", c->train.learned_tokens},
                               {"validation_learned_tokens", c->validation.learned_tokens},
                               {"train_rows", c->train_rows->count()},
                               {"cut", c->cut},
                               {"cut_tokens", c->cut_tokens},
                               {"left_out", c->unanswered}};
  }
  for (const SourceShare& share : source_shares(run, plan))
    line["mixture"].push_back({{"part", share.part}, {"passes", share.passes}});
  line["vocabulary"] = run.config.vocabulary;
  line["parameters"] = plan.parameters;
  line["memory_bytes"] = {{"parameters", memory.parameters},   {"gradients", memory.gradients},
                          {"moments", memory.moments},         {"averages", memory.averages},
                          {"activations", memory.activations}, {"scratch", memory.scratch},
                          {"process", run.process_bytes},      {"total", plan.total_bytes}};
  line["steps"] = run.options.steps;
  line["tokens_per_step"] = plan.step_tokens;
  line["flops_per_step"] = plan.step_flops;
  line["recomputed_flops_per_step"] = plan.recomputed_flops;
  line["estimated_tokens_per_s"] = plan.tokens_per_second;
  line["estimated_seconds"] = plan.seconds;
  line["threads"] = arguments.threads;
  line["instruction_set"] = instruction_set();
  line["fma_peak_gflops"] = run.machine.fma_peak_gflops;
  line["matmul_gflops"] = run.machine.matmul_gflops;
  line["options"] = parse_json(options_to_json(run.options));
  return line;
}

std::string plan_text(const TrainArguments& arguments, const TrainRun& run, const Plan& plan) {
  const TrainOptions& o = run.options;
  const TransformerConfig& c = run.config;
  const Corpus& corpus = run.corpus;
  std::string text;
  const auto line = [&](std::string_view what, const std::string& value) {
    text += fmt::format("{:<9} {}\n", what, value);
  };
  const auto bytes = [](int64_t value) { return format_bytes(static_cast<double>(value)); };
  if (run.has_text) {
    std::string skipped;
    if (run.skipped_empty > 0)
      skipped = fmt::format("; {} empty file{} skipped", run.skipped_empty, plural(run.skipped_empty));
    if (run.skipped_broken > 0)
      skipped +=
          fmt::format("; {} broken document{} left out", run.skipped_broken, plural(run.skipped_broken));
    line("data",
         fmt::format("{} document{}, {}; {} tokens to train on, {} to validate{}", corpus.documents,
                     plural(corpus.documents), bytes(corpus.train_bytes + corpus.validation_bytes),
                     format_count(corpus.train_size()), format_count(corpus.validation_size()), skipped));
    if (corpus.conversations) text += conversation_lines(run);
    line("tokenizer", fmt::format("{}, {} ids", run.tokenizer->kind_name(), format_count(c.vocabulary)));
  } else {
    line("data", fmt::format("no text: a vocabulary of {} is assumed", format_count(c.vocabulary)));
  }
  line("model", fmt::format("{}: {} layer{}, {} head{} of {}, {} channels, context {}; {} parameters", o.arch,
                            c.layers, plural(c.layers), c.heads, plural(c.heads), c.head_size, c.channels,
                            c.context, format_count(plan.parameters)));
  if (!o.from.empty()) line("from", one_line(o.from));
  line("memory",
       fmt::format("{}: parameters {}, gradients {}, moments {}, {}activations {}, scratch {}, program{} {}",
                   bytes(plan.total_bytes), bytes(plan.memory.parameters), bytes(plan.memory.gradients),
                   bytes(plan.memory.moments),
                   o.ema > 0 ? fmt::format("averages {}, ", bytes(plan.memory.averages)) : "",
                   bytes(plan.memory.activations), bytes(plan.memory.scratch),
                   run.has_text ? " and text" : "", bytes(run.process_bytes)));
  const double tokens = corpus.conversations
                            ? static_cast<double>(corpus.conversations->train_rows->count() * o.context)
                            : static_cast<double>(corpus.train_size());
  const double passes = static_cast<double>(o.steps) * static_cast<double>(plan.step_tokens) / tokens;
  line("training",
       fmt::format("{} steps of {} tokens{}, learning rate {}{}; about {}", format_count(o.steps),
                   format_count(plan.step_tokens),
                   run.has_text ? fmt::format(" ({:.3g} passes over the data)", passes) : "", o.learning_rate,
                   o.optimizer == "adamw" ? "" : " of " + o.optimizer, format_duration(plan.seconds)));
  for (size_t s = 0; const SourceShare& share : source_shares(run, plan)) {
    line(s == 0 ? "mixture" : "",
         fmt::format("{:.3g} % {}: {} tokens, {:.3g} passes", 100 * share.part, one_line(arguments.data[s]),
                     format_count(corpus.sources[s].train_size()), share.passes));
    ++s;
  }
  line("machine", fmt::format("{} thread{}, {}, {:.0f} GFLOP/s peak, products by {} at {:.0f}",
                              arguments.threads, plural(arguments.threads), instruction_set(),
                              run.machine.fma_peak_gflops, matmul_engine(), run.machine.matmul_gflops));
  return text;
}

void print_plan(const TrainArguments& arguments, const TrainRun& run) {
  const Plan plan = make_plan(arguments, run);
  if (arguments.json) {
    Json line = plan_json(arguments, run, plan);
    line["out"] = run.out.string();
    line["resumed_from_step"] = run.steps_done;
    line["damaged_checkpoints"] = run.damaged;
    std::puts(to_text(line).c_str());
    return;
  }
  std::string text = plan_text(arguments, run, plan);
  text += fmt::format("{:<9} {}\n", "out", one_line(run.out.string()));
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
  if (run.corpus.conversations)
    return fmt::format("{} chat {}", shell_quote(arguments.program), shell_quote(run.out.string()));
  return fmt::format("{} generate {} --prompt {}", shell_quote(arguments.program),
                     shell_quote(run.out.string()),
                     run.first_word.empty() ? "''" : "\"" + run.first_word + "\"");
}

void print_already_finished(const TrainArguments& arguments, const TrainRun& run) {
  const bool early = run.steps_done < run.options.steps;
  if (arguments.json) {
    const Json line = {
        {"event", "finished"}, {"out", run.out.string()}, {"step", run.steps_done}, {"stopped_early", early}};
    std::puts(to_text(line).c_str());
    return;
  }
  const std::string out = one_line(run.out.string());
  const std::string go_on = program_and_data(arguments, run) + " --resume ";
  if (early) {
    fmt::print(
        "This run is finished: {} stopped early after step {} of {}, at the end of --patience {}.\n"
        "  write text       {}\n"
        "  train on         {}--patience {}, or 0: to the last step\n",
        out, run.steps_done, run.options.steps, run.options.patience, generate_line(arguments, run), go_on,
        2 * run.options.patience);
  } else {
    fmt::print(
        "This run is finished: {} holds all {} steps.\n"
        "  write text       {}\n"
        "  train longer     {}--steps {}\n",
        out, run.steps_done, generate_line(arguments, run), go_on, 2 * run.steps_done);
  }
  fmt::print("  start anew       the same command with another --out, or remove {}\n", out);
}

}  // namespace tril::cli
