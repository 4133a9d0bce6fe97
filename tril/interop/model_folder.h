// A model is a folder: config.json, model.safetensors, tokenizer.json; for other programs also
// tokenizer_config.json and, in Hugging Face's layouts, generation_config.json.
//
// Where Hugging Face's GPT-2 can express the architecture exactly (tanh GELU, erf GELU or ReLU; head size C /
// H; as many key/value heads as heads; tied head without bias) the folder uses its names and layout and opens
// there as it is; otherwise tril's own: config.json with "model_type": "tril", tensors named by the parameter
// visitor, (out, in).
#pragma once

#include "tril/containers/safetensors.h"
#include "tril/interop/stored_model.h"

namespace tril {

// Writes the files, each atomically, the weights last.
void save_model_folder(const Path& folder, const TransformerConfig& config, const Parameters& parameters,
                       const Tokenizer& tokenizer, const ModelText& text = {});

// Part of open_model: the weights are not compared with the configuration yet. Throws kData naming file, key
// and value.
StoredModel open_model_folder(const Path& folder);

// The sizes of the tutorials' model, from a file of its PyTorch state dict: see tutorial_layout. Throws kData
// naming the tensor.
TransformerConfig tutorial_config(const StoredArrays& arrays);

}  // namespace tril
