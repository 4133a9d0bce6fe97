// What model folders hold besides config.json and the weights: the texts that tokenizers and generators read.
#pragma once

#include "tril/interop/config_json.h"
#include "tril/interop/stored_model.h"

namespace tril {

// What the files say: the stop ids, or the tokenizer's end-of-text where there are none; a text begins with
// its first token, or, as GPT-2's, after an end.
TokenIds token_ids(const Tokenizer* tokenizer, const ModelText& text);

// tokenizer_config.json, for transformers' AutoTokenizer beside tokenizer.json.
std::string tokenizer_config_json(const Tokenizer& tokenizer, int64_t context, const ModelText& text);
std::string generation_config_json(const TokenIds& ids);

// Fills `text` with the folder's chat template (chat_template.jinja, or tokenizer_config.json) and with the
// stop ids of generation_config.json; where it has none those that are there stay. Throws kData naming file
// and key.
void read_model_text(const Path& folder, ModelText& text);

}  // namespace tril
