// Models in PyTorch's .pt and .bin files: checkpoints of the tutorials' program and of nanoGPT, bare state
// dicts, Hugging Face's pytorch_model.bin. Read without Python, and nothing in them is run
// (containers/torch_file.h).
#pragma once

#include "tril/interop/stored_model.h"

namespace tril {

// By the first bytes: any zip, or a file of PyTorch before 1.6, which opening refuses with what to do.
bool is_torch_file(const Path& path);

// The tensors of the state dict that a file holds: under "model_state_dict", "state_dict" or "model", or the
// whole file. Throws kData for files with none, and for tensors that cannot be read.
StoredArrays torch_arrays(const Path& path);

// Told by the names of the tensors, not yet compared with the configuration:
//   token_embed.weight   the tutorials' program; its sizes are those of the tensors
//   wte.weight           nanoGPT's, sizes by its "model_args"; exact GELU
//   either of Hugging Face's, by the config.json beside the file
// The tokenizer is that of tokenizer.json or of nanoGPT's meta.pkl beside the file, if there is one.
StoredModel open_torch_model(const Path& path);

// The sizes of the tutorials' model, from a file of its PyTorch state dict: see tutorial_layout. Throws kData
// naming the tensor.
TransformerConfig tutorial_config(const StoredArrays& arrays);

// nanoGPT's names: GPT-2's, but (out, in).
Layout nanogpt_layout(const TransformerConfig& config);

// Checkpoints that torch.load opens with weights_only=True and the other program loads into its own model.
// They hold no state of an optimizer. Throw kUse with the reason for models that it cannot compute exactly.
void write_torch_tutorial(const Path& path, const TransformerConfig& config, const ReadRows& rows);
void write_torch_nanogpt(const Path& path, const TransformerConfig& config, const ReadRows& rows);

}  // namespace tril
