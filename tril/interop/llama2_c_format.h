// The order of the arrays in llama2.c's files. Used by llama2_c.cc and llama2_c_write.cc.
#pragma once

#include <vector>

#include "tril/nn/transformer.h"

namespace tril {

inline constexpr uint32_t kLlama2CMagic = 0x616b3432;  // "ak42"
inline constexpr size_t kLlama2CHeader = 256, kLlama2COldHeader = 7 * sizeof(int32_t);

// Arrays of one kind, of all layers or of none; `name` is Hugging Face's behind "layers.<i>." or without.
struct Llama2CKind {
  const char* name;
  bool layered = true;
  int64_t rows = 0, columns = 1;  // of one array; a vector: 1 column
  bool is_vector() const { return columns == 1; }
};

// In the order of the file, what follows the norms being groups of int8 in version 2. The angles that version
// 0 has between norm and head are left out.
std::vector<Llama2CKind> llama2_c_kinds(const TransformerConfig& config, int version);

}  // namespace tril
