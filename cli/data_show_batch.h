// Tokens as `tril data show` prints them.
#pragma once

#include <cstdint>
#include <string>

#include "tril/tensor/batch.h"
#include "tril/text/tokenizer.h"

namespace tril::cli {

// A token so that its borders can be seen: line breaks as \n, special tokens by name.
std::string shown_token(const Tokenizer& tokenizer, int32_t id);
// Row by row: documents, positions and which targets count; or one JSON object.
void print_batch(const Batch& batch, const Tokenizer& tokenizer, bool json);

}  // namespace tril::cli
