// config.json of model folders: what each layout writes and reads.
#pragma once

#include "tril/base/files.h"
#include "tril/containers/json.h"
#include "tril/interop/layout.h"

namespace tril {

// tril's own: every field, by the names of transformer_fields.h.
std::string tril_config_json(const TransformerConfig& config);
// What tril_config_json() gave; `where` names its place in messages.
TransformerConfig parse_tril_config(std::string_view json, const std::string& where);

// The tokens by which other programs begin and end a text.
struct TokenIds {
  int32_t begin = -1;         // -1: none
  std::vector<int32_t> stop;  // empty: none
};
void add_token_ids(const TokenIds& ids, Json& json);  // "bos_token_id", "eos_token_id"
std::string_view torch_name(DType dtype);             // "float32", "float16" or "bfloat16"

// Whether Hugging Face's GPT-2 computes exactly this model; `reason` then stays, else says why not: "its head
// is not tied".
bool expressible_as_gpt2(const TransformerConfig& config, std::string& reason);
std::string gpt2_config_json(const TransformerConfig& config, DType dtype, const TokenIds& ids);

// "llama", "mistral", "qwen2" or "qwen3": which of Hugging Face's models computes exactly this one; empty for
// none, and then `reason`, empty before, says why.
std::string llama_model_type(const TransformerConfig& config, std::string& reason);
std::string llama_config_json(const TransformerConfig& config, std::string_view type, DType dtype,
                              const TokenIds& ids);

// A config.json of any layout: the model and how its arrays are named. Throws kData naming file, key and
// value.
struct ReadConfig {
  TransformerConfig config;
  Layout layout;
  std::vector<int32_t> stop_ids;  // "eos_token_id": a number or several
};
ReadConfig read_config_json(const Path& path);

}  // namespace tril
