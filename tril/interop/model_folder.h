// A model is a folder: config.json, model.safetensors, tokenizer.json; for other programs also
// tokenizer_config.json and, in the GPT-2 layout, generation_config.json.
//
// Where Hugging Face's GPT-2 can express the architecture exactly (tanh GELU, erf GELU or ReLU; head size C /
// H; as many key/value heads as heads; tied head without bias) the folder uses its names and layout and opens
// there as it is; otherwise tril's own: config.json with "model_type": "tril", tensors named by the parameter
// visitor, (out, in).
#pragma once

#include <memory>

#include "tril/nn/transformer.h"
#include "tril/text/tokenizer.h"

namespace tril {

bool expressible_as_gpt2(const TransformerConfig& config);

// Writes the files, each atomically, the weights last.
void save_model_folder(const Path& folder, const TransformerConfig& config, const Parameters& parameters,
                       const Tokenizer& tokenizer);

struct LoadedModel {
  TransformerConfig config;
  std::unique_ptr<Transformer> model;
  std::unique_ptr<Parameters> parameters;  // without gradients
  std::unique_ptr<Tokenizer> tokenizer;    // null if the folder has none
  std::string layout;                      // "gpt2" or "tril"
};
// Throws kData naming file, key, tensor and values.
LoadedModel load_model_folder(const Path& folder);

// The tutorials' PyTorch names, one query, key and value per head (attn_blocks.0.attn.heads.0.key.weight,
// ...): fused into the model's parameters. `arrays` is a safetensors file of that state dict. Missing
// attn.proj.* (old versions) is an identity projection. Throws kData naming the tensor.
class SafetensorsFile;
TransformerConfig tutorial_config(const SafetensorsFile& arrays);
void load_tutorial_state(const SafetensorsFile& arrays, Parameters& parameters,
                         const TransformerConfig& config);

}  // namespace tril
