// A model is a folder: config.json, model.safetensors, tokenizer.json; for other programs also
// tokenizer_config.json and generation_config.json.
//
// Where one of Hugging Face's models computes exactly the same the folder is laid out as its folders are, and
// opens there as it is: GPT-2 (tanh GELU, erf GELU or ReLU; head size C / H; as many key/value heads as
// heads; tied head without bias), or Llama, Mistral, Qwen-2 and Qwen-3 (RMS norm, rotary positions, a gated
// MLP; see llama_model_type). Otherwise it is tril's own: config.json with "model_type": "tril", tensors
// named by the parameter visitor, (out, in). What others have no key for stands in the object "tril" of
// config.json.
#pragma once

#include "tril/containers/safetensors.h"
#include "tril/interop/stored_model.h"

namespace tril {

// Writes the files, each atomically, the weights last.
void save_model_folder(const Path& folder, const TransformerConfig& config, const Parameters& parameters,
                       const Tokenizer& tokenizer, const ModelText& text = {});

// The same of a model that is rows somewhere. Throws kUse with the reason if the kind cannot be had.
enum class FolderKind {
  kAny,          // Hugging Face's where it can be, otherwise tril's own
  kHuggingFace,  // or an error
  kTril,
};
struct FolderOptions {
  FolderKind kind = FolderKind::kAny;
  DType dtype = DType::kF32;  // of every array: f32, f16 or bf16
};
// Returns the layout's name: "gpt2", "llama", "tril". Without a tokenizer its files are left out.
std::string write_model_folder(const Path& folder, const TransformerConfig& config, const ReadRows& rows,
                               const Tokenizer* tokenizer, const ModelText& text,
                               const FolderOptions& options);

// Part of open_model: the weights are not compared with the configuration yet. Throws kData naming file, key
// and value.
StoredModel open_model_folder(const Path& folder);

}  // namespace tril
