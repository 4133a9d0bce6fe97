// Whose tensor is which: the names of one file against the names of the parameter visitor.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "tril/containers/safetensors.h"
#include "tril/nn/transformer.h"

namespace tril {

// "transformer.", "model.", "module." and "_orig_mod." in front of a name are wrappers' and say nothing.
std::string_view without_wrappers(std::string_view name);

// The arrays of a file by name without wrappers. Throws kData if two names become one.
using ArraysByName = std::map<std::string, const NamedArray*, std::less<>>;
ArraysByName arrays_by_name(const SafetensorsFile& file);

// Throws kData naming file and tensor.
const NamedArray& require_array(const SafetensorsFile& file, const ArraysByName& arrays,
                                const std::string& name);
// Its floats; throws kData naming file, tensor and both shapes or dtypes.
ConstView require_f32(const SafetensorsFile& file, const ArraysByName& arrays, const std::string& name,
                      const Shape& shape);

// Hugging Face's GPT-2. Its linear weights are (in, out).
struct Gpt2Name {
  std::string name;  // "h.0.attn.c_attn.weight"
  bool transposed = false;
};
Gpt2Name gpt2_name(std::string_view parameter);
bool is_gpt2_buffer(std::string_view name);  // causal masks that old files carry

// GPT-2 has every bias: a model without some is one whose biases are zero.
TransformerConfig with_gpt2_biases(TransformerConfig config);

void write_gpt2_weights(const Path& path, const TransformerConfig& config, const Parameters& parameters);
void write_tril_weights(const Path& path, const Parameters& parameters);

// Throws kData unless the file holds exactly the tensors of this model, with their shapes: before memory for
// them is asked for.
void check_weights(const SafetensorsFile& file, const TransformerConfig& config, bool gpt2);
void read_weights(const SafetensorsFile& file, bool gpt2, const Parameters& parameters);

// config.json, both layouts.
std::string gpt2_config_json(const TransformerConfig& config, int32_t end_of_text);
std::string tril_config_json(const TransformerConfig& config);
// Sets `layout` to "gpt2" or "tril". Throws kData naming file, key and value.
TransformerConfig read_config_json(const Path& path, std::string& layout);
// What tril_config_json() gave; `where` names its place in messages.
TransformerConfig parse_tril_config(std::string_view json, const std::string& where);

}  // namespace tril
