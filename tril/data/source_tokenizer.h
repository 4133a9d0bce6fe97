// Tokenizers made from sources that need not fit into memory.
#pragma once

#include <vector>

#include "tril/base/parallel.h"
#include "tril/data/sources.h"
#include "tril/text/tokenizer.h"

namespace tril {

// One id for each character of the sources.
Tokenizer characters_of(const std::vector<SourceFile>& files, const SourceOptions& options,
                        bool with_end_of_text);

// Merges learned from about the first `most_bytes` of the training side that a build with this fraction has.
Tokenizer train_bpe_on(const std::vector<SourceFile>& files, const SourceOptions& options,
                       double validation_fraction, int64_t vocabulary, int64_t most_bytes,
                       Executor& executor);

}  // namespace tril
