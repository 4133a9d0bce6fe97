#include "cli/start_model.h"

#include <algorithm>
#include <span>
#include <vector>

#include "tril/containers/checksum.h"
#include "tril/interop/config_json.h"

namespace tril::cli {
namespace {

// The files of a model's weights.
std::vector<Path> weights_files(const Path& model) {
  if (!std::filesystem::is_directory(model)) return {model};
  for (const char* name : {"model.safetensors", "pytorch_model.bin"})
    if (std::filesystem::exists(model / name)) return {model / name};
  std::vector<Path> shards;
  for (const auto& entry : std::filesystem::directory_iterator(model))
    if (entry.path().extension() == ".safetensors") shards.push_back(entry.path());
  std::sort(shards.begin(), shards.end());
  return shards;
}

// Tells a model's weights from others': the checksum of the file, or of the checksums of several.
std::string checksum_of_weights(const Path& model) {
  std::string all;
  const std::vector<Path> files = weights_files(model);
  for (const Path& file : files) all += fmt::format("{:08x}", crc32(MappedFile(file)));
  return files.size() == 1 ? all : fmt::format("{:08x}", crc32(std::as_bytes(std::span(all))));
}

}  // namespace

void load_start_model(const TrainArguments& arguments, TrainRun& run) {
  const Path folder = run.options.from;
  LoadedModel loaded = load_model(folder);
  check_use(
      loaded.tokenizer != nullptr,
      "--from {}: the model has no tokenizer.json, without which no text can be read for it; put it there",
      folder.string());
  for (const char* name : {"tokenizer", "vocab"})
    check_use(
        !arguments.given.contains(name),
        "--{}: the tokenizer of this run is that of --from {}; leave --{} out, and a preset or config file "
        "that sets it",
        name, folder.string(), name);
  // Positions that are computed are the same in a shorter context; of a table rows would be lost.
  const int64_t context = arguments.given.contains("context") ? arguments.options.context : 0;
  if (context > 0 && context < loaded.config.context &&
      loaded.config.attention.positions != Positions::kLearned)
    loaded.config.context = context;
  set_model_options(loaded.config, run.options);
  TrainOptions wanted = run.options;
  for (const Field& field : train_fields()) {
    if (!is_model_option(field) || !arguments.given.contains(field.name)) continue;
    std::visit([&](auto member) { wanted.*member = arguments.options.*member; }, field.member);
  }
  std::string conflicts;
  for (const OptionDifference& difference : compare_options(run.options, wanted))
    conflicts += fmt::format("{}--{} is {}, the model has {}", conflicts.empty() ? "" : "; ", difference.name,
                             difference.here, difference.there);
  check_use(conflicts.empty(),
            "--from {}: the model decides its sizes and its block: {}; leave the option out", folder.string(),
            conflicts);
  run.config = loaded.config;
  run.tokenizer = std::move(loaded.tokenizer);
  run.start_weights_crc32 = checksum_of_weights(folder);
  run.start_model = std::make_unique<LoadedModel>(std::move(loaded));
}

void restore_start_model(const Json& stored, TrainRun& run) {
  const std::string before = stored["options"].value("from", "");
  check_use(
      run.options.from == before,
      "{} holds a run of {} steps that differs: --from was \"{}\", now \"{}\"; repeat the first command "
      "to go on, or, to start anew, give another --out or remove {}",
      run.out.string(), run.steps_done, before, run.options.from, run.out.string());
  if (before.empty()) return;
  check_data(stored.contains("config") && stored.value("from_weights_crc32", Json()).is_string(),
             "{}: state.json does not say what model the run started from; start anew in another --out",
             run.checkpoint->string());
  run.config = parse_tril_config(to_text(stored["config"]), run.checkpoint->string() + ", \"config\"");
  run.tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(run.out / "tokenizer.json"));
  run.start_weights_crc32 = stored["from_weights_crc32"].get<std::string>();
}

}  // namespace tril::cli
