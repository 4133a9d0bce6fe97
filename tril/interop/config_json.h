// config.json of model folders: what each layout writes and reads.
#pragma once

#include "tril/base/files.h"
#include "tril/interop/layout.h"

namespace tril {

// tril's own: every field, by the names of transformer_fields.h.
std::string tril_config_json(const TransformerConfig& config);
// What tril_config_json() gave; `where` names its place in messages.
TransformerConfig parse_tril_config(std::string_view json, const std::string& where);

bool expressible_as_gpt2(const TransformerConfig& config);
std::string gpt2_config_json(const TransformerConfig& config, int32_t end_of_text);

// A config.json of any layout: the model and how its arrays are named. Throws kData naming file, key and
// value.
struct ReadConfig {
  TransformerConfig config;
  Layout layout;
  std::vector<int32_t> stop_ids;  // "eos_token_id": a number or several
};
ReadConfig read_config_json(const Path& path);

}  // namespace tril
