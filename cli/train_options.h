// The options of `tril train`: one table serves the command line, its help and config files.
#pragma once

#include <functional>
#include <set>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cli/command.h"
#include "cli/source_options.h"
#include "tril/train/options.h"

namespace tril::cli {

// What the command is told besides the fields of TrainOptions.
struct TrainArguments {
  std::string program;
  std::vector<std::string> words;  // after "train", as given
  std::vector<std::string> data;
  SourceArguments reading;  // how the data are read
  std::string out, preset, config;
  int64_t threads = 0;
  int64_t tokens = 0;  // length of the run in tokens, 0: not given
  double hours = 0;    // length of the run in hours, 0: not given
  int64_t memory = 0;  // bytes the process may take, 0: not given
  bool resume = false, json = false;
  bool in_folder = true;  // false: a model that is trained to be looked at and forgotten
  TrainOptions options;
  std::set<std::string> given;  // names of the fields somebody set: preset, config file or command line
};

struct Field {
  template <class T>
  using Of = T TrainOptions::*;
  std::string name;  // "learning-rate"
  std::string_view group;
  std::string_view value;  // as --help shows it
  std::string help;
  std::variant<Of<std::string>, Of<int64_t>, Of<uint64_t>, Of<float>, Of<double>, Of<bool>> member;
  double least = 0, most = 0;
  std::vector<std::string> words = {};  // the only values, for text
};

const std::vector<Field>& train_fields();
bool is_model_option(const Field& field);  // a model has it: of its sizes or its block

// `where` names the option or the line of the config file. Throws kUse.
void set_field(TrainOptions& options, const Field& field, std::string_view text, std::string_view where);

// A command that takes the options of a run.
struct RunCommand {
  // kPlan has no run and may have no text; kSweep has no run, and finds rates itself.
  enum class Purpose { kTrain, kPlan, kSweep };
  std::string name, description, examples;
  Purpose purpose = Purpose::kTrain;
  std::function<void(CommandLine&)> own_options = {};  // added at the end
};

// Command line over config file over preset. False when help was printed.
bool parse_train_arguments(const Arguments& words, TrainArguments& out);
bool parse_run_arguments(const RunCommand& command, const Arguments& words, TrainArguments& out);

// A flat TOML or JSON file of option names and values, or the run.json of a run.
struct ConfigEntry {
  std::string name, value;
  std::string where;  // "run.toml line 3: layers"
};
std::vector<ConfigEntry> read_config_file(const std::string& path);

}  // namespace tril::cli
