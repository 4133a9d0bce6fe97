// llama2.c's model files: https://github.com/karpathy/llama2.c, export.py, run.c, runq.c.
//
//   version 0   seven int32 sizes | float32 arrays; a negative vocabulary: the head is not tied
//   version 1   "ak42", version, sizes, u8 tied, zeros up to 256 bytes | float32 arrays in another order
//   version 2   the same with the size of a group | norms in float32, matrices in groups of int8 that share a
//               float32 scale (Q8_0 by groups)
//
// Llama with RMS norm (epsilon 1e-5), rotary positions in pairs (2i, 2i+1) with base 10000, SwiGLU.
#pragma once

#include "tril/interop/stored_model.h"

namespace tril {

// By the first bytes; version 0 has none of its own and is told by sizes that give the file's length.
bool is_llama2_c_file(const Path& path);

// Arrays by Hugging Face's names; those of version 2 are converted to floats at once. The tokenizer is that
// of tok<vocabulary>.bin or tokenizer.bin beside the file, if there is one. Throws kData naming file and
// values.
StoredModel open_llama2_c_model(const Path& path);

enum class Llama2CVersion { kV0, kV1, kV2 };
// Version 2 has groups of 64, or the largest power of two below that divides the rows of every matrix; a
// group of zeros has the scale 0. `tokenizer`, if given, is written last, as tokenizer.bin beside the file.
// Throws kUse with the reason for models and tokenizers that llama2.c cannot express exactly, kNumerics for
// weights that are not finite in version 2.
void write_llama2_c(const Path& path, Llama2CVersion version, const TransformerConfig& config,
                    const ReadRows& rows, const Tokenizer* tokenizer);
// That tokenizer.bin.
Path llama2_c_tokenizer(const Path& path);

}  // namespace tril
