#include "cli/output.h"

#include <algorithm>
#include <cstdio>

#include "tril/base/error.h"

namespace tril::cli {
namespace {

bool is_name_of_model_file(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "config.json", "generation_config.json", "log.jsonl", "manifest.json", "run.json", "state.json"};
  return std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames) ||
         (name.starts_with("tokenizer") && name.ends_with(".json")) || name.ends_with(".safetensors") ||
         name.ends_with(".safetensors.index.json");
}

// A run has its log before its first config.json.
bool is_model(const Path& folder) {
  std::error_code missing;
  return std::filesystem::exists(folder / "config.json", missing) ||
         std::filesystem::exists(folder / "log.jsonl", missing);
}

bool is_model_or_in_its_steps(Path folder) {
  if (is_model(folder)) return true;
  for (; folder.has_relative_path(); folder = folder.parent_path())
    if (folder.filename() == "steps" && is_model(folder.parent_path())) return true;
  return false;
}

}  // namespace

void refuse_file_of_model(const std::string& out) {
  // The links and dots of the folder are followed; a link in the place of the file itself would be replaced.
  std::error_code missing;
  const Path path = std::filesystem::absolute(out, missing);
  check_use(!is_name_of_model_file(path.filename().native()) ||
                !is_model_or_in_its_steps(std::filesystem::weakly_canonical(path.parent_path(), missing)),
            "--out {}: this is the name of a file of the model in that folder; give another name or folder",
            out);
}

Output::Output(const std::string& name) {
  if (name != "-") file_ = std::make_unique<AtomicFile>(Path(name));
}

void Output::write(std::string_view bytes) {
  bytes_ += static_cast<int64_t>(bytes.size());
  if (file_ != nullptr)
    file_->write(bytes);
  else
    check_data(std::fwrite(bytes.data(), 1, bytes.size(), stdout) == bytes.size(),
               "standard output cannot be written");
}

void Output::commit() {
  if (file_ != nullptr) file_->commit();
}

}  // namespace tril::cli
