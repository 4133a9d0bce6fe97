#include "cli/run_folder.h"

#include <cstring>

#include "cli/chat_model.h"
#include "cli/folder_lock.h"
#include "tril/containers/json.h"

namespace tril::cli {
namespace {

constexpr const char* kRunFile = "run.json";

// The model of a checkpoint.
struct SavedModel {
  SavedModel(const TransformerConfig& config, const Path& checkpoint) : model(config) {
    load_checkpoint_model(checkpoint, parameters);
  }
  Transformer model;
  Parameters parameters{model, Parameters::Memory::kValues};
};

// The folder's model is whole and has these weights.
bool holds_model(const Path& folder, const Parameters& expected) {
  try {
    const LoadedModel loaded = load_model(folder);
    const auto& items = loaded.parameters->items();
    if (loaded.tokenizer == nullptr || items.size() != expected.items().size()) return false;
    for (size_t i = 0; i < items.size(); ++i) {
      const View& here = items[i].weight->value;
      const View& there = expected.items()[i].weight->value;
      const auto bytes = static_cast<size_t>(dtype_bytes(DType::kF32, there.elements()));
      if (here.shape != there.shape || std::memcmp(here.data, there.data, bytes) != 0) return false;
    }
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

Path final_save(const TrainRun& run, const Path& last) {
  const int64_t best = read_checkpoint_state(last).best_save_step;
  return run.options.final_model == "best" && best >= 0 ? checkpoint_folder(run.out, best) : last;
}

void write_run_description(const TrainRun& run) {
  make_directories(run.out);
  run.tokenizer->save(run.out / "tokenizer.json");
  write_file_atomic(run.out / kRunFile, to_text(parse_json(run.identity), 2) + "\n");
}

void write_model(const TrainRun& run, const Parameters& parameters) {
  const std::string& name = run.options.chat_template;
  ModelText text;
  if (!name.empty()) text = model_text_of(ChatTemplate(name, *run.tokenizer), *run.tokenizer);
  save_model_folder(run.out, run.config, parameters, *run.tokenizer, text);
}

void complete_run_folder(const TrainRun& run) {
  const SavedModel saved(run.config, final_save(run, *run.checkpoint));
  if (std::filesystem::exists(run.out / kRunFile) && holds_model(run.out, saved.parameters)) return;
  const FolderLock lock(run.out);
  write_run_description(run);
  write_model(run, saved.parameters);
}

}  // namespace tril::cli
