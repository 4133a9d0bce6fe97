// A model from one format into another, array by array: never whole in memory.
#pragma once

#include <functional>
#include <string_view>

#include "tril/interop/stored_model.h"

namespace tril {

// kTorch: a checkpoint of the tutorials' program or of nanoGPT, by the architecture. kLlama2C: what
// llama2.c's run reads, or runq with q8_0; kLlama2CV1: its version 1.
enum class ModelFormat { kHuggingFace, kTril, kGguf, kTorch, kLlama2C, kLlama2CV1 };

std::string_view name_of(ModelFormat format);               // "hf", "tril", "gguf", "pt", "llama2.c", ...
ModelFormat model_format_from_name(std::string_view name);  // throws kUse
ModelFormat model_format_of_path(const Path& path);         // by its ending; a name without one is a folder

// "f32", "f16", "bf16", "q8_0", "q4_0"; throws kUse for others.
DType weight_type_from_name(std::string_view name);

// Writes `out`, a file or a folder, in a folder beside it, where `accept` may look at it and throw, and then
// puts it into its place: as a whole, or where a folder is already, its files one by one. What is there is
// refused unless `replace`. Returns what it is there: "llama", "gpt2", ... Throws kUse with the reason and
// what to do if the format cannot express the model exactly.
struct ExportOptions {
  ModelFormat format = ModelFormat::kHuggingFace;
  DType dtype = DType::kF32;
  bool replace = false;
};
std::string export_model(const StoredModel& model, const Path& out, const ExportOptions& options,
                         const std::function<void(const Path&)>& accept = {});

// How far the logits of two models differ on the same tokens, drawn at random: the root of the mean square of
// the differences by that of the logits around their mean. `allowed` is what rounding to this type explains.
struct LogitDifference {
  int64_t tokens = 0;
  double relative = 0;
  double allowed = 0;
};
LogitDifference compare_logits(const Path& original, const Path& converted, DType dtype, Executor& executor);

}  // namespace tril
