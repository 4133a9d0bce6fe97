#include "tril/train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <system_error>

#include "tril/containers/checksum.h"
#include "tril/containers/json.h"
#include "tril/containers/safetensors.h"

namespace tril {
namespace {

constexpr std::string_view kFormat = "tril checkpoint 1";
constexpr const char* kFiles[] = {"weights.safetensors", "optimizer.safetensors", "state.json"};
constexpr uint64_t kMostSteps = 1'000'000'000'000'000'000;
constexpr const char* kManifest = "manifest.json";
constexpr std::string_view kTemporary = ".tmp";  // being written, or left behind by a crash
constexpr std::string_view kReplaced = ".old";   // the same step saved before, until the new one is in place

struct StepFolder {
  int64_t step = 0;
  bool replaced = false;
  Path path;
};

// All complete-looking step folders, newest first. "00000500", or "00000500.old".
std::vector<StepFolder> list_step_folders(const Path& steps) {
  std::vector<StepFolder> out;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(steps, error)) {
    std::string name = entry.path().filename().string();
    StepFolder folder{.path = entry.path()};
    if (name.ends_with(kReplaced)) {
      folder.replaced = true;
      name.resize(name.size() - kReplaced.size());
    }
    const bool digits = !name.empty() && name.size() <= 18 &&
                        std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) continue;
    folder.step = std::stoll(name);
    out.push_back(std::move(folder));
  }
  std::sort(out.begin(), out.end(), [](const StepFolder& a, const StepFolder& b) {
    return a.step != b.step ? a.step > b.step : a.replaced < b.replaced;
  });
  return out;
}

void remove_temporaries(const Path& steps) {
  std::vector<Path> stale;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(steps, error)) {
    if (entry.path().filename().string().ends_with(kTemporary)) stale.push_back(entry.path());
  }
  for (const Path& path : stale) remove_tree(path);
}

std::string hex32(uint32_t value) { return fmt::format("{:08x}", value); }

void write_weights(const Path& path, const Parameters& parameters) {
  std::vector<NamedView> arrays;
  for (const auto& item : parameters.items()) arrays.push_back({item.info.name, item.weight->value});
  write_safetensors(path, arrays);
}

constexpr const char* kAverage = ".average";

// What the optimizer carries from step to step.
struct NamedState {
  std::string name;
  View view;
};
std::vector<NamedState> optimizer_state(const Parameters& parameters, const Optimizer& optimizer) {
  std::vector<NamedState> out;
  for (size_t i = 0; i < parameters.items().size(); ++i) {
    const Optimizer::Moments& moments = optimizer.moments()[i];
    for (const auto& [suffix, view] :
         {std::pair(".m", moments.m), {".v", moments.v}, {kAverage, moments.average}})
      if (view) out.push_back({parameters.items()[i].info.name + suffix, view});
  }
  return out;
}

void write_optimizer(const Path& path, const Parameters& parameters, const Optimizer& optimizer) {
  std::vector<NamedView> arrays;
  for (const NamedState& state : optimizer_state(parameters, optimizer))
    arrays.push_back({state.name, state.view});
  write_safetensors(path, arrays);
}

// visit(name, field) for what a state holds besides its step and options. Infinite numbers are null in the
// file, and absent ones (of an older tril) stay as they are.
template <class State, class Visit>
void visit_numbers(State& state, Visit&& visit) {
  visit("sampler_rows", state.position.rows);
  visit("best_save_step", state.best_save_step);
  visit("best_save_loss", state.best_save_loss);
  visit_watch_state(state.watch, visit);
}

void write_state(const Path& path, const CheckpointState& state) {
  Json json;
  json["step"] = state.step;
  visit_numbers(state, [&](const std::string& name, auto value) {
    json[name] = std::isfinite(static_cast<double>(value)) ? Json(value) : Json(nullptr);
  });
  Json options = parse_json(state.options_json.empty() ? "null" : state.options_json);
  check_use(!options.is_discarded(), "checkpoint {}: the options are not JSON: {}", path.string(),
            state.options_json);
  json["options"] = std::move(options);
  write_file_atomic(path, to_text(json, 1) + "\n");
}

void write_manifest(const Path& folder) {
  Json json;
  json["format"] = kFormat;
  for (const char* name : kFiles) {
    const MappedFile file(folder / name);
    json["files"][name] = {{"bytes", file.bytes().size()}, {"crc32", hex32(crc32(file))}};
  }
  write_file_atomic(folder / kManifest, to_text(json, 1) + "\n");
}

void load_array(const SafetensorsFile& file, const std::string& name, const View& out) {
  const ConstView view = file.view(name, out.shape, out.dtype);
  std::copy_n(view.data, dtype_bytes(out.dtype, out.elements()), out.data);
}

void check_undamaged(const Path& folder) {
  const std::string damage = checkpoint_damage(folder);
  check_data(damage.empty(), "checkpoint {}: {}; use an older one", folder.string(), damage);
}

void check_no_others(const SafetensorsFile& file, size_t expected) {
  check_data(file.arrays().size() == expected,
             "{}: {} arrays where the model has {}; it belongs to another model", file.path().string(),
             file.arrays().size(), expected);
}

}  // namespace

Path checkpoint_folder(const Path& run, int64_t step) { return run / "steps" / fmt::format("{:08}", step); }

void save_checkpoint(const Path& run, const Parameters& parameters, const Optimizer& optimizer,
                     const CheckpointState& state, int64_t keep) {
  const Path steps = run / "steps";
  make_directories(steps);
  remove_temporaries(steps);
  const Path target = checkpoint_folder(run, state.step);
  const Path temporary = Path(target) += kTemporary;
  try {
    make_directories(temporary);
    write_weights(temporary / kFiles[0], parameters);
    write_optimizer(temporary / kFiles[1], parameters, optimizer);
    write_state(temporary / kFiles[2], state);
    write_manifest(temporary);
    sync_directory(temporary);
    if (std::filesystem::exists(target)) {
      const Path replaced = Path(target) += kReplaced;
      remove_tree(replaced);
      rename_durably(target, replaced);
    }
    rename_durably(temporary, target);
  } catch (...) {
    std::error_code ignored;
    std::filesystem::remove_all(temporary, ignored);
    throw;
  }
  // The new one is durable: now the old may go.
  int64_t kept = 0;
  for (const StepFolder& folder : list_step_folders(steps)) {
    const bool old = folder.step <= state.step && ++kept > keep && folder.step != state.best_save_step;
    if (folder.replaced || old) remove_tree(folder.path);
  }
}

std::string checkpoint_damage(const Path& folder) try {
  if (!std::filesystem::exists(folder / kManifest)) return "manifest.json is missing";
  const Json manifest = parse_json(read_text_file(folder / kManifest));
  if (!manifest.is_object() || !manifest.contains("files") || !manifest["files"].is_object())
    return "manifest.json is damaged";
  if (manifest.value("format", Json()) != kFormat) return "manifest.json has a format that is not known here";
  for (const char* name : kFiles) {
    const Json entry = manifest["files"].value(name, Json());
    if (!entry.is_object() || !entry.contains("bytes") || !entry.contains("crc32"))
      return fmt::format("manifest.json does not name {}", name);
    if (!std::filesystem::exists(folder / name)) return fmt::format("{} is missing", name);
    const MappedFile file(folder / name);
    if (entry["bytes"] != file.bytes().size())
      return fmt::format("{} has {} bytes, the manifest says {}", name, file.bytes().size(),
                         to_text(entry["bytes"]));
    if (entry["crc32"] != hex32(crc32(file)))
      return fmt::format("{} does not have the checksum of the manifest", name);
  }
  return "";
} catch (const std::exception& error) {
  return error.what();
}

std::optional<Path> find_checkpoint(const Path& run, std::vector<std::string>* passed_over) {
  for (const StepFolder& folder : list_step_folders(run / "steps")) {
    const std::string damage = checkpoint_damage(folder.path);
    if (damage.empty()) return folder.path;
    if (passed_over != nullptr) passed_over->push_back(fmt::format("{}: {}", folder.path.string(), damage));
  }
  return std::nullopt;
}

CheckpointState read_checkpoint_state(const Path& folder) {
  const Path path = folder / kFiles[2];
  const Json json = parse_json(read_text_file(path));
  check_data(json.is_object() && json.contains("step") && json["step"].is_number_unsigned() &&
                 json["step"].get<uint64_t>() <= kMostSteps,
             "{}: damaged; use an older checkpoint", path.string());
  CheckpointState state;
  state.step = json["step"].get<int64_t>();
  visit_numbers(state, [&](const std::string& name, auto& field) {
    const Json value = json.value(name, Json());
    using T = std::remove_reference_t<decltype(field)>;
    if (std::is_integral_v<T> ? value.is_number_integer() : value.is_number()) field = value.get<T>();
  });
  state.options_json = to_text(json.value("options", Json()));
  return state;
}

void load_checkpoint(const Path& folder, Parameters& parameters, Optimizer& optimizer) {
  check_undamaged(folder);
  const SafetensorsFile weights(folder / kFiles[0]);
  const SafetensorsFile stored(folder / kFiles[1]);
  const std::vector<NamedState> state = optimizer_state(parameters, optimizer);
  check_no_others(weights, parameters.items().size());
  check_no_others(stored, state.size());
  // Everything is looked at before anything is changed.
  for (const auto& item : parameters.items()) weights.f32(item.info.name, item.info.shape);
  for (const NamedState& s : state) stored.view(s.name, s.view.shape, s.view.dtype);
  for (const auto& item : parameters.items()) load_array(weights, item.info.name, item.weight->value);
  for (const NamedState& s : state) load_array(stored, s.name, s.view);
}

void load_checkpoint_model(const Path& folder, const Parameters& parameters) {
  check_undamaged(folder);
  const SafetensorsFile weights(folder / kFiles[0]), optimizer(folder / kFiles[1]);
  check_no_others(weights, parameters.items().size());
  const bool averaged = optimizer.find(parameters.items().front().info.name + kAverage) != nullptr;
  const SafetensorsFile& file = averaged ? optimizer : weights;
  const auto name = [&](const auto& item) { return item.info.name + (averaged ? kAverage : ""); };
  for (const auto& item : parameters.items()) file.f32(name(item), item.info.shape);
  for (const auto& item : parameters.items()) load_array(file, name(item), item.weight->value);
}

}  // namespace tril
