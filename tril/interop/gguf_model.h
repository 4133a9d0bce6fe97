// Models in GGUF files: llama.cpp's llama, qwen2, qwen3 and gpt2, with their tokenizer.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include "tril/containers/gguf.h"
#include "tril/interop/stored_model.h"

namespace tril {

// "llama", "qwen2", "qwen3" or "gpt2": the architecture of llama.cpp that computes exactly this model; empty
// for none, and then `reason`, empty before, says why and what to do.
std::string gguf_architecture(const TransformerConfig& config, std::string& reason);

// The names of an architecture's tensors. Rows of queries and keys are in pairs (0, 1), ... for llama, in
// halves for the others.
Layout gguf_layout(const TransformerConfig& config, std::string_view architecture);

// Part of open_model: reads the header alone. Throws kData naming field or tensor for what tril cannot
// compute.
StoredModel open_gguf_model(const Path& path);

// Writes a file that llama.cpp opens, and returns its architecture: matrices in this type (f32, f16, bf16,
// q8_0, q4_0), vectors and position tables in f32; a matrix whose rows are no whole blocks is f16. Tensors
// are made one after another. Throws kUse with the reason and what to do for models and tokenizers that
// llama.cpp cannot have.
std::string write_gguf_model(const Path& path, const TransformerConfig& config, const ReadRows& rows,
                             const Tokenizer& tokenizer, const ModelText& text, DType dtype);

}  // namespace tril
