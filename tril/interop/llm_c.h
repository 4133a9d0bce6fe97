// llm.c's files of GPT-2: a model, and the numbers that its PyTorch program computed from it once.
// https://github.com/karpathy/llm.c, train_gpt2.py (write_model, write_state). Headers of 256 int32, arrays
// of float32 (version 3) or bfloat16 (version 5), each kind of all layers before the next; weights (out, in).
#pragma once

#include "tril/interop/stored_model.h"

namespace tril {

// By the first bytes.
bool is_llm_c_file(const Path& path);

// GPT-2 with tanh GELU, every bias and a tied head. The rows that pad the vocabulary to a multiple of 128 are
// left out. Throws kData for other versions, sizes that do not give the file's length, Llama 3's files.
StoredModel open_llm_c_model(const Path& path);

// What a model should compute: "*_debug_state.bin".
struct LlmCDebugState {
  int64_t batch = 0, time = 0;
  std::vector<int32_t> tokens, targets;  // (B, T)
  StoredArray logits;                    // (B, T, V)
  float loss = 0;                        // mean cross-entropy
  StoredModel gradients;                 // of the loss, in the place of the weights
};
// `config`: that of the model of which the file is. Throws kData unless the file is of its sizes.
LlmCDebugState read_llm_c_debug_state(const Path& path, const TransformerConfig& config);

}  // namespace tril
