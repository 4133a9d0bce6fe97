#include "cli/train_setup.h"

#include "cli/format.h"
#include "cli/memory.h"
#include "cli/start_model.h"
#include "cli/train_data.h"
#include "tril/containers/json.h"
#include "tril/interop/config_json.h"
#include "tril/kernels/machine.h"
#include "tril/kernels/matmul.h"
#include "tril/train/defaults.h"
#include "tril/train/trainer.h"

namespace tril::cli {
namespace {

Path default_out(const std::string& data) {
  if (data == "-") return Path("runs") / "stdin";
  Path path = std::filesystem::absolute(data).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const Path stem = std::filesystem::is_directory(path) ? path.filename() : path.stem();
  return Path("runs") / (stem.empty() ? Path("text") : stem);
}

std::string how_to_start_anew(const Path& out) {
  return "to start anew, give another --out or remove " + out.string();
}

// A folder with weights but no checkpoint is somebody's model: nothing here may overwrite it.
void check_no_other_model(const Path& out, const std::vector<std::string>& damaged) {
  const bool file = std::filesystem::exists(out) && !std::filesystem::is_directory(out);
  check_use(!file, "{}: a file is in the place of the run's folder; give another --out", out.string());
  if (!damaged.empty())
    fail(ErrorKind::kData, "{}: no checkpoint is whole ({}); {}", out.string(), damaged.front(),
         how_to_start_anew(out));
  check_use(!std::filesystem::exists(out / "model.safetensors"),
            "{} holds a model but no checkpoint to resume; give another --out", out.string());
}

// What the run was started with, for everything this command leaves open.
TrainOptions with_stored(const TrainArguments& arguments, TrainOptions options, const Json& stored,
                         const std::string& source) {
  Json open = stored.at("options");
  for (const std::string& name : arguments.given) open.erase(name);
  options_from_json(to_text(open), source, options);
  // A new rate takes the lowest one with it.
  const float before = stored.at("options").value("learning-rate", 0.0f);
  if (arguments.given.contains("learning-rate") && !arguments.given.contains("min-learning-rate") &&
      before > 0)
    options.min_learning_rate *= options.learning_rate / before;
  return options;
}

Json read_identity(const Path& checkpoint) {
  const Json stored = parse_json(read_checkpoint_state(checkpoint).options_json);
  const auto has = [](const Json& json, const char* name, auto type) {
    return json.is_object() && json.contains(name) && (json[name].*type)();
  };
  check_data(has(stored, "options", &Json::is_object) && has(stored, "data", &Json::is_object) &&
                 has(stored, "tokenizer", &Json::is_string) &&
                 has(stored["data"], "train_tokens", &Json::is_number) &&
                 has(stored["data"], "fingerprint", &Json::is_string),
             "{}: state.json does not name the run's options, text and tokenizer; remove this folder",
             checkpoint.string());
  return stored;
}

// The commands that made the run, each with the step it began at; the same one again adds nothing.
Json make_history(const TrainArguments& arguments, const TrainRun& run, const Json& stored) {
  std::string command = shell_quote(arguments.program) + " train";
  for (const std::string& word : arguments.words) command += " " + shell_quote(word);
  Json now = {{"command", command},
              {"tril", TRIL_VERSION},
              {"instruction_set", instruction_set()},
              {"products", matmul_engine()}};
  Json history = stored.value("history", Json::array());
  Json last = history.empty() ? Json::object() : history.back();
  last.erase("from_step");
  if (to_text(last) == to_text(now)) return history;  // as text: names need not be UTF-8
  now["from_step"] = run.steps_done;
  history.push_back(now);
  return history;
}

Json make_identity(const TrainArguments& arguments, const TrainRun& run, const Json& stored) {
  Json identity;
  identity["options"] = parse_json(options_to_json(run.options));
  identity["tokens"] = arguments.tokens;
  identity["hours"] = arguments.hours;
  identity["data"] = {{"fingerprint", run.corpus.fingerprint},
                      {"train_tokens", run.corpus.train_size()},
                      {"validation_tokens", run.corpus.validation_size()},
                      {"sources", arguments.data},
                      {"documents", run.corpus.documents},
                      {"text_bytes", run.corpus.train_bytes + run.corpus.validation_bytes},
                      {"text_crc32", run.text_crc32}};
  identity["tokenizer"] = run.tokenizer->fingerprint();
  if (!run.start_weights_crc32.empty()) identity["from_weights_crc32"] = run.start_weights_crc32;
  identity["config"] = parse_json(tril_config_json(run.config));
  identity["history"] = make_history(arguments, run, stored);
  return identity;
}

// Throws kUse naming every difference between the run in the folder and this command.
void check_same_run(const TrainArguments& arguments, const TrainRun& run, const Json& stored,
                    const Json& now) {
  TrainOptions before;
  options_from_json(to_text(stored["options"]), run.checkpoint->string(), before);
  std::string differences;
  const auto differ = [&](const std::string& name, const std::string& there, const std::string& here) {
    differences += fmt::format("{}{} was {}, now {}", differences.empty() ? "" : "; ", name, there, here);
  };
  for (const OptionDifference& difference : compare_options(before, run.options)) {
    if (!difference.exact_resume) continue;
    // Asked for by --resume, a run may be made longer, and one that diverged may go on with other rates.
    const bool longer = difference.name == "steps" && run.options.steps > before.steps;
    const bool rate = difference.name == "learning-rate" || difference.name == "min-learning-rate" ||
                      difference.name == "schedule" || difference.name == "decay-fraction" ||
                      difference.name == "clip";
    // Epochs go on in their order, whatever the size of the steps.
    const bool order_stays = (difference.name == "batch" || difference.name == "accumulate") &&
                             run.options.sampling == "epochs" && before.sampling == "epochs";
    if (!arguments.resume || !(longer || rate || order_stays))
      differ("--" + difference.name, difference.there, difference.here);
  }
  for (const char* name : {"tokens", "hours"}) {
    if (now.at(name) != 0 && stored.value(name, Json(0)) != now.at(name))
      differ(fmt::format("--{}", name), to_text(stored.value(name, Json(0))), to_text(now.at(name)));
  }
  const Json& data = stored["data"];
  const auto other = [&](const char* name) { return data.value(name, Json()) != now["data"][name]; };
  if (other("fingerprint") || other("train_tokens") || other("validation_tokens"))
    differ("the text",
           fmt::format("{} tokens ({})", to_text(data["train_tokens"]), to_text(data["fingerprint"])),
           fmt::format("{} tokens ({})", to_text(now["data"]["train_tokens"]),
                       to_text(now["data"]["fingerprint"])));
  if (stored.value("tokenizer", "") != now["tokenizer"])
    differ("the tokenizer", stored.value("tokenizer", ""), now["tokenizer"].get<std::string>());
  check_use(differences.empty(),
            "{} holds a run of {} steps that differs: {}; repeat the first command to go on{}, or {}",
            run.out.string(), run.steps_done, differences,
            run.options.steps > before.steps ? ", add --resume to train longer" : "",
            how_to_start_anew(run.out));
}

// A path in one spelling: "a/./b/" as "a/b".
std::string normal_path(const std::string& text) {
  Path path = Path(text).lexically_normal();
  if (!path.has_filename() && path.has_relative_path()) path = path.parent_path();
  return path.string();
}

MachineFacts measure_machine(Executor& executor) {
  return {.fma_peak_gflops = measure_fma_peak_gflops(executor, 0.05),
          .matmul_gflops = measure_matmul_gflops(executor, 1024, 0.1)};
}

// As if there were as much text as anybody could use.
void assume_text(const TrainArguments& arguments, TrainRun& run) {
  constexpr int64_t kEnough = 1'000'000'000'000'000;
  run.facts.train_tokens = run.facts.validation_tokens = kEnough;
  TrainOptions& o = run.options;
  if (run.tokenizer != nullptr) {  // that of --from
    run.facts.vocabulary = run.config.vocabulary;
    return;
  }
  if (o.tokenizer.empty()) o.tokenizer = "bpe";
  choose_tokenizer(o, {.bytes = int64_t{1} << 24});
  if (!arguments.preset.empty() && !arguments.given.contains("vocab"))
    run.facts.vocabulary = find_preset(arguments.preset).vocabulary;
  else if (o.tokenizer == "bpe")
    run.facts.vocabulary = o.vocab;
  else if (o.tokenizer == "char" || o.tokenizer == "byte")
    run.facts.vocabulary = 256;
  else
    run.facts.vocabulary = Tokenizer::load(o.tokenizer).vocabulary();
}

void measure(const TrainArguments& arguments, TrainRun& run, Executor& executor) {
  run.machine = measure_machine(executor);
  run.facts.gflops = run.machine.matmul_gflops;
  run.facts.threads = executor.threads();
  run.facts.total_tokens = arguments.tokens;
  if (arguments.tokens == 0 && arguments.hours == 0) run.facts.total_tokens = run.least_tokens;
  if (arguments.hours > 0) run.facts.seconds = 3600 * arguments.hours;
  if (arguments.memory > 0)
    run.facts.memory = std::max<int64_t>(static_cast<int64_t>(asked_memory(arguments.memory).bytes), 1);
}

void choose_options(TrainRun& run) {
  TrainOptions& o = run.options;
  run.limit = choose_sizes(o, run.facts);
  check_use(o.min_learning_rate <= o.learning_rate,
            "--min-learning-rate {} is above --learning-rate {}; give a smaller one", o.min_learning_rate,
            o.learning_rate);
  check_use(o.warmup < o.steps || o.warmup == 0,
            "--warmup {}: the run has {} steps and would end before it; give a smaller one", o.warmup,
            o.steps);
}

// After the options are chosen. The model of --from keeps its own shape.
void settle_config(TrainRun& run) {
  const TransformerConfig config = model_config(run.options, run.facts.vocabulary).resolved();
  if (run.options.from.empty()) {
    run.config = config;
    return;
  }
  run.config.dropout = config.dropout;
  run.config.z_loss = config.z_loss;
  run.config.label_smoothing = config.label_smoothing;
}

void check_asked_memory(const TrainArguments& arguments, const TrainRun& run) {
  if (arguments.memory > 0)
    check_memory(run.config, run.options, run.facts.threads,
                 {.bytes = static_cast<double>(run.facts.memory), .asked = arguments.memory});
}

void look_into_folder(const TrainArguments& arguments, TrainRun& run, Json& stored) {
  run.out = arguments.out.empty() ? default_out(arguments.data.front()) : Path(arguments.out);
  run.checkpoint = find_checkpoint(run.out, &run.damaged);
  if (run.checkpoint) {
    stored = read_identity(*run.checkpoint);
    const CheckpointState state = read_checkpoint_state(*run.checkpoint);
    run.steps_done = state.step;
    run.options = with_stored(arguments, run.options, stored, run.checkpoint->string());
    restore_start_model(stored, run);
    run.out_of_patience = out_of_patience(run.options, state.watch);
    return;
  }
  check_no_other_model(run.out, run.damaged);
  check_use(!arguments.resume, "--resume: {} holds no checkpoint; leave --resume out to start",
            run.out.string());
}

}  // namespace

TrainRun prepare_run(const TrainArguments& arguments, Executor& executor) {
  TrainRun run;
  run.options = arguments.options;
  if (!run.options.from.empty()) run.options.from = normal_path(run.options.from);
  check_options(run.options);
  check_given_sizes(run.options, executor.threads(), free_memory());
  if (arguments.memory > 0)
    check_given_sizes(run.options, executor.threads(), asked_memory(arguments.memory));

  Json stored = Json::object();
  if (arguments.in_folder) look_into_folder(arguments, run, stored);
  if (!run.checkpoint && !run.options.from.empty()) load_start_model(arguments, run);

  read_data(arguments, run);
  measure(arguments, run, executor);
  if (!run.checkpoint) choose_options(run);
  settle_config(run);
  if (run.checkpoint && arguments.memory > 0 && !arguments.given.contains("checkpointing")) {
    run.options.checkpointing.clear();
    choose_memory(run.options, run.config, run.facts, /*divide_batch=*/false);
  }
  run.process_bytes = process_bytes();
  check_asked_memory(arguments, run);
  check_memory(run.config, run.options, run.facts.threads, free_memory());

  Json identity = make_identity(arguments, run, stored);
  if (run.checkpoint) {
    check_same_run(arguments, run, stored, identity);
    for (const char* name : {"tokens", "hours"}) identity[name] = stored.value(name, Json(0));
  }
  run.identity = to_text(identity);
  return run;
}

TrainRun prepare_plan(const TrainArguments& arguments, Executor& executor) {
  TrainRun run;
  run.options = arguments.options;
  check_options(run.options);
  if (!run.options.from.empty()) load_start_model(arguments, run);
  if (arguments.data.empty())
    assume_text(arguments, run);
  else
    read_data(arguments, run);
  measure(arguments, run, executor);
  choose_options(run);
  settle_config(run);
  run.process_bytes = process_bytes();
  check_asked_memory(arguments, run);
  return run;
}

}  // namespace tril::cli
