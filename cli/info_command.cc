#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/format.h"
#include "tril/containers/json.h"
#include "tril/interop/config_json.h"
#include "tril/interop/model_folder.h"
#include "tril/train/checkpoint.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril info runs/book\n"
    "  tril info runs/book --json\n"
    "  tril info model.gguf";

// "blocks.0.attention.qkv.weight" -> "blocks.0"; "ln_final.weight" -> "ln_final".
std::string group_of(const std::string& name) {
  size_t end = name.find('.');
  if (name.starts_with("blocks.")) end = name.find('.', 7);
  return name.substr(0, end);
}

Json config_json(const TransformerConfig& c) {
  Json out = Json::object();
  const Json all = parse_json(tril_config_json(c));
  for (const auto& [name, value] : all.items()) {
    const bool rope = name.starts_with("rope_") && c.attention.positions != Positions::kRope;
    if (name != "model_type" && name != "format" && name != "z_loss" && !rope) out[name] = value;
  }
  return out;
}

Json groups_json(const Parameters& parameters) {
  Json groups = Json::array();
  for (const Parameters::Item& item : parameters.items()) {
    const std::string group = group_of(item.info.name);
    if (groups.empty() || groups.back()["name"] != group)
      groups.push_back({{"name", group}, {"parameters", 0}, {"tensors", Json::array()}});
    Json shape = Json::array();
    for (int i = 0; i < item.info.shape.rank(); ++i) shape.push_back(item.info.shape[i]);
    Json& last = groups.back();
    last["parameters"] = last["parameters"].get<int64_t>() + item.info.shape.elements();
    last["tensors"].push_back(
        {{"name", item.info.name}, {"shape", shape}, {"weight_decay", item.info.decay}});
  }
  return groups;
}

// How many tensors of each type the files have: {"f32": 14}.
Json types_json(const StoredArrays& arrays) {
  Json types = Json::object();
  for (const StoredArray& array : arrays.arrays) {
    const std::string name(dtype_info(array.dtype).name);
    types[name] = types.value(name, 0) + 1;
  }
  return types;
}

Json training_json(const std::string& folder) {
  const std::optional<Path> checkpoint = find_checkpoint(folder);
  if (!checkpoint) return nullptr;
  const CheckpointState state = read_checkpoint_state(*checkpoint);
  return {{"checkpoint", checkpoint->string()},
          {"step", state.step},
          {"best_validation_loss_nats", state.watch.best_validation_loss},
          {"best_save_step", state.best_save_step < 0 ? Json() : Json(state.best_save_step)},
          {"run", parse_json(state.options_json)}};
}

void print_text(const Json& report) {
  const Json& c = report["config"];
  fmt::print("{}: {} architecture, {} layout\n", one_line(report["model"].get<std::string>()),
             c["architecture"].get<std::string>(), report["layout"].get<std::string>());
  for (const auto& [name, value] : c.items())
    fmt::print("  {:<16} {}\n", name, value.is_string() ? value.get<std::string>() : to_text(value));
  const Json& tokenizer = report["tokenizer"];
  if (tokenizer.is_null())
    fmt::print("tokenizer: none\n");
  else
    fmt::print("tokenizer: {}, {} ids, end-of-text {}\n", tokenizer["kind"].get<std::string>(),
               to_text(tokenizer["vocabulary"]), to_text(tokenizer["end_of_text"]));
  const Json& types = report["types"];
  std::string tensors;
  for (const auto& [type, count] : types.items())
    tensors += fmt::format("{}{} {}", tensors.empty() ? "" : ", ", to_text(count), type);
  fmt::print("tensors: {}\n", tensors);
  fmt::print("chat template: {}\n", report["chat_template"].get<bool>() ? "yes" : "no");
  fmt::print("parameters: {}\n", format_count(report["parameters"].get<int64_t>()));
  for (const Json& group : report["groups"]) {
    fmt::print("  {:<20} {:>14}\n", group["name"].get<std::string>(),
               format_count(group["parameters"].get<int64_t>()));
    for (const Json& tensor : group["tensors"])
      fmt::print("    {:<36} ({})\n", tensor["name"].get<std::string>(),
                 fmt::join(tensor["shape"].get<std::vector<int64_t>>(), ", "));
  }
  const Json& training = report["training"];
  if (!training.is_null())
    fmt::print("training: step {} in {}, best validation loss {} nats\n", to_text(training["step"]),
               one_line(training["checkpoint"].get<std::string>()),
               to_text(training["best_validation_loss_nats"]));
}

}  // namespace

int info_command(const Arguments& words) {
  std::string folder;
  bool json = false;
  CommandLine line("info", "What is in a model: configuration, parameters, tokenizer, training state.",
                   kExamples);
  line.positional("MODEL", folder, "folder of a model or a run, or a model file");
  line.flag("--json", json, "report as one JSON object");
  if (!line.parse(words)) return 0;
  check_use(!folder.empty(), "tril info: no model given; usage: tril info MODEL");

  const StoredModel model = open_model(folder);
  Transformer transformer(model.config);
  const Parameters parameters(transformer, Parameters::Memory::kDry);
  Json tokenizer;
  if (model.tokenizer)
    tokenizer = {{"kind", model.tokenizer->kind_name()},
                 {"vocabulary", model.tokenizer->vocabulary()},
                 {"end_of_text", model.tokenizer->end_of_text()},
                 {"fingerprint", model.tokenizer->fingerprint()}};
  const Json report = {{"model", folder},
                       {"layout", model.layout.name},
                       {"config", config_json(model.config)},
                       {"parameters", parameters.count()},
                       {"groups", groups_json(parameters)},
                       {"types", types_json(model.arrays)},
                       {"tokenizer", tokenizer},
                       {"chat_template", !model.text.chat_template.empty()},
                       {"stop_ids", model.text.stop_ids},
                       {"training", training_json(folder)}};
  if (json)
    std::puts(to_text(report).c_str());
  else
    print_text(report);
  return 0;
}

}  // namespace tril::cli
