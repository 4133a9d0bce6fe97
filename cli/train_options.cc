#include "cli/train_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/memory.h"
#include "cli/near_name.h"
#include "tril/base/parallel.h"
#include "tril/text/chat_template_table.h"
#include "tril/train/defaults.h"

namespace tril::cli {
namespace {

constexpr double kMany = 1e15;  // sizes beyond are refused as text; smaller ones by the memory they take
constexpr std::string_view kModel = "Model";
constexpr std::string_view kText = "Text";
constexpr std::string_view kLength = "Length and batch";
constexpr std::string_view kOptimizer = "Optimizer";
constexpr std::string_view kBlock = "Variants of the block (as the architecture has them)";
constexpr std::string_view kRun = "Validation, saving, run";

std::vector<Field> make_fields() {
  using O = TrainOptions;
  const std::vector<std::string> yes_or_no = {"true", "false"};
  return {
      {"arch",
       kModel,
       "NAME",
       "llama (the default: RMS norm, SwiGLU, rotary positions, no biases), gpt (GPT-2's block), "
       "classic (the tutorials': ReLU, bias-free q k v), or custom: gpt and what is changed below",
       &O::arch,
       0,
       0,
       {"gpt", "llama", "classic", "custom"}},
      {"from", kModel, "MODEL",
       "start from the weights of this model, with its sizes and tokenizer; unless its positions are learned "
       "--context may be smaller, and is then the new model's",
       &O::from},
      {"layers", kModel, "N", "transformer blocks", &O::layers, 1, kMany},
      {"heads", kModel, "N", "attention heads", &O::heads, 1, kMany},
      {"kv-heads", kModel, "N", "key/value heads; must divide --heads (as many)", &O::kv_heads, 1, kMany},
      {"channels", kModel, "N", "model width", &O::channels, 1, kMany},
      {"head-size", kModel, "N", "width of a head (channels / heads)", &O::head_size, 1, kMany},
      {"mlp-hidden", kModel, "N", "hidden size of the MLP (4 channels; gated: 8/3)", &O::mlp_hidden, 1,
       kMany},
      {"context", kModel, "N", "tokens the model sees at once", &O::context, 1, kMany},
      {"dropout", kModel, "X", "probability of dropping an activation in training (0)", &O::dropout, 0, 0.99},
      {"activation",
       kBlock,
       "NAME",
       "relu, gelu, gelu_tanh, silu, or gated: swiglu, geglu",
       &O::activation,
       0,
       0,
       {"relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu"}},
      {"norm", kBlock, "NAME", "layer or rms", &O::norm, 0, 0, {"layer", "rms"}},
      {"norm-epsilon", kBlock, "X", "added to the variance (1e-5)", &O::norm_epsilon, 1e-12, 0.1},
      {"positions",
       kBlock,
       "NAME",
       "learned, rope (rotary), alibi or none",
       &O::positions,
       0,
       0,
       {"learned", "rope", "alibi", "none"}},
      {"rope-base", kBlock, "X", "of the rotary wavelengths (10000)", &O::rope_base, 1.001, 1e12},
      {"rope-size", kBlock, "N", "features of a head that turn, an even number (all)", &O::rope_size, 2, 256},
      {"rope-interleaved", kBlock, "", "turn pairs (0, 1), (2, 3) ... instead of halves",
       &O::rope_interleaved},
      {"rope-scaling",
       kBlock,
       "NAME",
       "for longer contexts: none, linear, ntk, llama3 or yarn (none)",
       &O::rope_scaling,
       0,
       0,
       {"none", "linear", "ntk", "llama3", "yarn"}},
      {"rope-factor", kBlock, "X", "how much longer the context is (1)", &O::rope_factor, 1, 1e6},
      {"rope-original-context", kBlock, "N", "the context before scaling, for llama3 and yarn",
       &O::rope_original_context, 1, kMany},
      {"window", kBlock, "N", "a token sees the last N only, 0: all (0)", &O::window, 0, kMany},
      {"softcap", kBlock, "X", "attention scores within (-X, X), by tanh; 0: no limit (0)", &O::softcap, 0,
       1e9},
      {"qk-norm", kBlock, "", "RMS norm of queries and keys", &O::qk_norm},
      {"sinks", kBlock, "", "a learned sink for each head: weights may sum to less than 1", &O::sinks},
      {"scale", kBlock, "X", "of the attention scores (1 / sqrt(head size))", &O::scale, 1e-9, 1e9},
      {"parallel-residual", kBlock, "", "attention and MLP read the same input", &O::parallel_residual},
      {"logit-softcap", kBlock, "X", "logits within (-X, X), by tanh; 0: no limit (0)", &O::logit_softcap, 0,
       1e9},
      {"qkv-bias", kBlock, "BOOL", "true or false: a bias on query, key and value", &O::qkv_bias, 0, 0,
       yes_or_no},
      {"projection-bias", kBlock, "BOOL", "of attention's output projection", &O::projection_bias, 0, 0,
       yes_or_no},
      {"mlp-bias", kBlock, "BOOL", "of the MLP", &O::mlp_bias, 0, 0, yes_or_no},
      {"norm-bias", kBlock, "BOOL", "of the norms", &O::norm_bias, 0, 0, yes_or_no},
      {"lm-head-bias", kBlock, "BOOL", "of an untied language-model head", &O::lm_head_bias, 0, 0, yes_or_no},
      {"tied-head", kBlock, "BOOL", "the head is the token embedding", &O::tied_head, 0, 0, yes_or_no},
      {"document-mask", kText, "", "tokens see their own document alone, from position 0", &O::document_mask},
      {"tokenizer", kText, "KIND", "char, byte, bpe, or the file or folder of a tokenizer (by the text)",
       &O::tokenizer},
      {"vocab", kText, "N", "ids of a bpe tokenizer (by the size of the text)", &O::vocab, 258, 1e7},
      {"val-fraction", kText, "X", "part of the text kept for validation (0.1)", &O::val_fraction, 0, 0.9},
      {"sampling",
       kText,
       "NAME",
       "windows at random, or in epochs: each once before any comes again, then anew (random)",
       &O::sampling,
       0,
       0,
       {"random", "epochs"}},
      {"mix", kText, "LIST",
       "a weight for each FILE, such as 0.7,0.3: rows are read in these proportions (all text is one)",
       &O::mix},
      {"template", kText, "NAME",
       "how conversations are written: " + chat_template_names() + " (as the model of --from)",
       &O::chat_template},
      {"steps", kLength, "N", "optimizer steps", &O::steps, 1, 1e12},
      {"batch", kLength, "N", "windows of text in a micro-batch", &O::batch, 1, kMany},
      {"accumulate", kLength, "N", "micro-batches in a step (1)", &O::accumulate, 1, 1 << 20},
      {"checkpointing",
       kLength,
       "NAME",
       "what backward computes again to save memory: none, selective (the MLP's hidden layer) or block "
       "(every block), to the same bits (none, or what fits the memory)",
       &O::checkpointing,
       0,
       0,
       {"none", "selective", "block"}},
      {"learning-rate", kOptimizer, "X", "largest learning rate (by the size of the model)",
       &O::learning_rate, 1e-12, 100},
      {"min-learning-rate", kOptimizer, "X", "learning rate at the end (a tenth)", &O::min_learning_rate, 0,
       100},
      {"warmup", kOptimizer, "N", "steps of linear warm-up", &O::warmup, 0, 1e12},
      {"schedule",
       kOptimizer,
       "NAME",
       "after the warm-up: cosine, linear, constant, or wsd: constant, then linear (cosine)",
       &O::schedule,
       0,
       0,
       {"cosine", "linear", "constant", "wsd"}},
      {"decay-fraction", kOptimizer, "X", "part of the steps, at the end, in which wsd decays (0.2)",
       &O::decay_fraction, 0, 1},
      {"weight-decay", kOptimizer, "X", "decoupled decay of the matrices (0.1)", &O::weight_decay, 0, 100},
      {"decay-all", kOptimizer, "", "decay every parameter, not the matrices alone", &O::decay_all},
      {"optimizer",
       kOptimizer,
       "NAME",
       "adamw, or muon: orthogonalised momentum for the hidden matrices (adamw)",
       &O::optimizer,
       0,
       0,
       {"adamw", "muon"}},
      {"moments",
       kOptimizer,
       "NAME",
       "how the optimizer's moments are stored: f32, or bf16 in half the memory (f32)",
       &O::moments,
       0,
       0,
       {"f32", "bf16"}},
      {"ema", kOptimizer, "X",
       "average the weights of about the last 1 / (1 - X) steps; validated and saved is the average (0: off)",
       &O::ema, 0, 0.9999999},
      {"label-smoothing", kOptimizer, "X", "part of the target's probability spread over all ids (0)",
       &O::label_smoothing, 0, 0.99},
      {"z-loss", kOptimizer, "X", "weight of log^2 Z, which keeps logits small; 1e-4 is usual (0)",
       &O::z_loss, 0, 1},
      {"beta1", kOptimizer, "X", "AdamW's first moment (0.9)", &O::beta1, 0, 0.999999},
      {"beta2", kOptimizer, "X", "AdamW's second moment (0.99)", &O::beta2, 0, 0.999999},
      {"epsilon", kOptimizer, "X", "AdamW's epsilon (1e-8)", &O::epsilon, 1e-30, 1},
      {"clip", kOptimizer, "X", "largest norm of the gradient, 0: no limit (1)", &O::clip, 0, 1e9},
      {"eval-every", kRun, "N", "steps between validations", &O::eval_every, 1, 1e12},
      {"eval-batches", kRun, "N", "batches of a validation", &O::eval_batches, 1, 1e12},
      {"save-every", kRun, "N", "steps between saves", &O::save_every, 1, 1e12},
      {"sample-every", kRun, "N", "steps between samples of text; 0: none", &O::sample_every, 0, 1e12},
      {"save-minutes", kRun, "X", "minutes between saves, beside --save-every; 0: none (10)",
       &O::save_minutes, 0, 1e6},
      {"keep", kRun, "N", "newest saves kept, besides the best by validation loss (2)", &O::keep, 1, 1e6},
      {"tensorboard", kRun, "", "event files for TensorBoard too, in the run's folder tensorboard",
       &O::tensorboard},
      {"final-model",
       kRun,
       "NAME",
       "the model at the end: last, or best by validation loss (last)",
       &O::final_model,
       0,
       0,
       {"last", "best"}},
      {"patience", kRun, "N", "end after N validations in a row without a new best; 0: never (0)",
       &O::patience, 0, 1e9},
      {"max-skipped", kRun, "N", "leave out up to N steps in a row whose numbers are not finite (0)",
       &O::max_skipped, 0, 1e9},
      {"seed", kRun, "N", "of the first weights, the batches and dropout (1)", &O::seed, 0, 9.2e18},
  };
}

const Field* find_field(std::string_view name) {
  for (const Field& field : train_fields())
    if (field.name == name) return &field;
  return nullptr;
}

// The remaining options; a config file may set them too.
void set_argument(TrainArguments& out, std::string_view name, std::string_view text, std::string_view where) {
  check_use(!text.empty(), "{}: the value is empty; give one, or leave it out", where);
  if (name == "out") out.out = text;
  if (name == "preset") out.preset = text;
  if (name == "threads") out.threads = parse_count(where, text, {1, 1024});
  if (name == "tokens") out.tokens = parse_count(where, text, {1, 1'000'000'000'000'000});
  if (name == "hours") out.hours = parse_number(where, text, {1e-4, 1e5});
  if (name == "memory") out.memory = parse_bytes(where, text);
}

// What only a command that trains takes on its command line; its config files may be shared.
const std::set<std::string_view> kOfTrainAlone = {
    "learning-rate", "min-learning-rate", "warmup",     "schedule",     "decay-fraction", "ema",
    "eval-every",    "eval-batches",      "save-every", "sample-every", "keep",           "save-minutes",
    "tensorboard",   "final-model",       "patience",   "max-skipped"};

const std::vector<std::string> kArguments = {"out", "preset", "threads", "tokens", "hours", "memory"};

void check_config_name(const ConfigEntry& entry) {
  if (find_field(entry.name) || std::count(kArguments.begin(), kArguments.end(), entry.name)) return;
  std::vector<std::string> names = kArguments;
  for (const Field& field : train_fields()) names.push_back(field.name);
  fail(ErrorKind::kUse, "{}: unknown option{}", entry.where, suggestion(entry.name, names));
}

// --steps, --tokens and --hours each set the length of the run: the command line's over the config file's
// over the preset's.
void settle_length(const CommandLine& line, const std::vector<ConfigEntry>& entries, TrainArguments& out) {
  const auto in_line = [&](const std::string& name) { return line.given("--" + name); };
  const auto in_file = [&](const std::string& name) {
    return std::any_of(entries.begin(), entries.end(), [&](const auto& e) { return e.name == name; });
  };
  const std::vector<std::string> names = {"steps", "tokens", "hours"};
  const bool line_decides = std::any_of(names.begin(), names.end(), in_line);
  std::string winner;
  for (const std::string& name : names) {
    if (!(line_decides ? in_line(name) : in_file(name))) continue;
    check_use(winner.empty(), "--{} and --{} both set the length of the run; give one", winner, name);
    winner = name;
  }
  if (winner.empty() || winner == "steps") out.tokens = 0, out.hours = 0;
  if (winner == "tokens") out.hours = 0;
  if (winner == "hours") out.tokens = 0;
  if (winner == "tokens" || winner == "hours") {
    out.options.steps = 0;
    out.given.erase("steps");
  }
}

constexpr const char* kExamples =
    "  tril train book.txt                       sizes, tokenizer and length chosen for text and machine\n"
    "  tril train texts/ --out runs/mine         every .txt below a folder\n"
    "  tril train book.txt --layers 4 --heads 4 --channels 128 --context 64 --steps 2000\n"
    "  tril train book.txt --config run.toml --learning-rate 1e-3\n"
    "  tril train more.txt --from runs/book      a new run from that model's weights\n"
    "  tril train chat.jsonl --from runs/book    the same on conversations: it learns to answer\n"
    "  tril train texts/ --kv-heads 2 --window 256 --document-mask\n"
    "The same command again goes on where an unfinished run stopped.";

struct Raw {
  std::string text;
  bool on = false;
};

}  // namespace

const std::vector<Field>& train_fields() {
  static const std::vector<Field> fields = make_fields();
  return fields;
}

bool is_model_option(const Field& field) {
  const bool of_the_run = field.name == "dropout" || field.name == "from";
  return (field.group == kModel && !of_the_run) || field.group == kBlock;
}

void set_field(TrainOptions& options, const Field& field, std::string_view text, std::string_view where) {
  const auto integer = [&] {
    return parse_count(where, text, {static_cast<int64_t>(field.least), static_cast<int64_t>(field.most)});
  };
  std::visit(
      [&](auto member) {
        using T = std::remove_reference_t<decltype(options.*member)>;
        if constexpr (std::is_same_v<T, std::string>) {
          const bool known = field.words.empty() || std::count(field.words.begin(), field.words.end(), text);
          check_use(known, "{} '{}': give one of {}{}", where, text, fmt::join(field.words, ", "),
                    suggestion(text, field.words));
          options.*member = text;
        } else if constexpr (std::is_same_v<T, bool>) {
          check_use(text == "true" || text == "false", "{} '{}': give true or false", where, text);
          options.*member = text == "true";
        } else if constexpr (std::is_floating_point_v<T>) {
          options.*member = static_cast<T>(parse_number(where, text, {field.least, field.most}));
        } else {
          options.*member = static_cast<T>(integer());
        }
      },
      field.member);
}

bool parse_train_arguments(const Arguments& words, TrainArguments& out) {
  return parse_run_arguments({"train",
                              "Trains a model from text files, folders, - for standard input, or a store of "
                              "tril data build. Text, Markdown and\nJSON lines are read, each also as .gz or "
                              ".zst, and token ids as .npy, .h5, nanoGPT's and llm.c's .bin.",
                              kExamples},
                             words, out);
}

bool parse_run_arguments(const RunCommand& command, const Arguments& words, TrainArguments& out) {
  const bool trains = command.purpose == RunCommand::Purpose::kTrain;
  CommandLine line(command.name, command.description, command.examples);
  line.positionals("FILE", out.data, "text files, folders, or a token store");
  std::map<std::string, Raw> raw;
  const auto text_option = [&](const std::string& name, std::string_view value, std::string_view help) {
    line.text("--" + name, raw[name].text, value, std::string(help));
  };
  std::string_view heading;
  for (const Field& field : train_fields()) {
    if (command.purpose == RunCommand::Purpose::kSweep && kOfTrainAlone.contains(field.name)) continue;
    if (field.group != heading) line.heading(heading = field.group);
    if (std::holds_alternative<Field::Of<bool>>(field.member))
      line.flag("--" + field.name, raw[field.name].on, std::string(field.help));
    else
      text_option(field.name, field.value, field.help);
    if (field.name == "steps") {
      text_option("tokens", "N", "length of the run in tokens, instead of --steps");
      text_option("hours", "X", "length of the run in hours, instead of --steps (4 minutes)");
    }
  }
  text_option("memory", "SIZE",
              "what the process may take, such as 4G: divides the batch and chooses --checkpointing to fit");
  std::string names;
  for (const Preset& preset : presets()) names += (names.empty() ? "" : ", ") + std::string(preset.name);
  line.heading("Sources");
  out.reading.add_to(line);
  line.heading("Options");
  text_option("preset", "NAME", "sizes and rates by name: " + names);
  line.text("--config", out.config, "FILE",
            "TOML or JSON with these names, or a run.json; the command line wins");
  if (trains) {
    text_option("out", "DIR", "folder of the run (runs/<name of the data>)");
    line.flag("--resume", out.resume, "insist on going on with a run; with more --steps: train longer");
  }
  text_option("threads", "N", fmt::format("threads (all processors: {})", available_threads()));
  line.flag("--json", out.json,
            trains ? "one JSON object a line on standard output" : "one JSON object on standard output");
  if (command.own_options) command.own_options(line);
  if (!line.parse(words)) return false;
  for (const char* name : {"--config", "--out", "--preset", "--tokenizer", "--from"}) {
    const std::string& text = name == std::string_view("--config") ? out.config : raw[name + 2].text;
    check_use(!line.given(name) || !text.empty(), "{}: the value is empty; give one, or leave {} out", name,
              name);
  }
  check_use(command.purpose == RunCommand::Purpose::kPlan || !out.data.empty(),
            "tril {0}: no text given; usage: tril {0} FILE... (tril {0} --help)", command.name);
  for (const std::string& word : out.data) {
    check_use((word != "true" && word != "false") || std::filesystem::exists(word),
              "tril {}: there is no file '{}'; switches take no value: give them, or leave them out",
              command.name, word);
  }
  check_use(std::count(out.data.begin(), out.data.end(), "-") < 2, "tril {}: - is given twice", command.name);
  out.program = words.program;
  out.words = words.words;
  out.in_folder = trains;
  out.threads = available_threads();
  std::vector<ConfigEntry> entries;
  if (!out.config.empty()) entries = read_config_file(out.config);
  for (const ConfigEntry& entry : entries) {
    check_config_name(entry);
    set_argument(out, entry.name, entry.value, entry.where);
  }
  for (const std::string& name : kArguments)
    if (line.given("--" + name)) set_argument(out, name, raw[name].text, "--" + name);
  if (!out.preset.empty()) {
    std::string arch = line.given("--arch") ? raw["arch"].text : "";
    for (const ConfigEntry& entry : entries)
      if (entry.name == "arch" && arch.empty()) arch = entry.value;
    out.options = preset_options(find_preset(out.preset), arch);
    for (const OptionDifference& difference : compare_options({}, out.options))
      out.given.insert(difference.name);
  }
  const auto set = [&](const std::string& name, const std::string& text, const std::string& where) {
    if (const Field* field = find_field(name)) {
      set_field(out.options, *field, text, where);
      out.given.insert(name);
    }
  };
  for (const ConfigEntry& entry : entries) set(entry.name, entry.value, entry.where);
  for (const Field& field : train_fields()) {
    const bool flag = std::holds_alternative<Field::Of<bool>>(field.member);
    if (line.given("--" + field.name))
      set(field.name, flag ? (raw[field.name].on ? "true" : "false") : raw[field.name].text,
          "--" + field.name);
  }
  settle_length(line, entries, out);
  // A preset's warm-up is for the preset's length.
  const bool warmup_given = line.given("--warmup") || std::any_of(entries.begin(), entries.end(),
                                                                  [](auto& e) { return e.name == "warmup"; });
  if (!out.preset.empty() && !warmup_given && out.options.warmup >= out.options.steps) {
    out.options.warmup = -1;
    out.given.erase("warmup");
  }
  return true;
}

}  // namespace tril::cli
