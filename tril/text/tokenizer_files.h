// Where the parts of a tokenizer come from, files or training, and what each format cannot say.
#pragma once

#include "tril/base/files.h"
#include "tril/text/tokenizer_parts.h"

namespace tril {

TokenizerParts load_tokenizer_parts(const Path& path, std::string_view pattern);
TokenizerParts train_bpe_parts(const BpeRecipe& recipe, Executor& executor,
                               FunctionRef<void(BpeTrainer&)> feed);

// What must be written so that the format says what the parts do; throws kUse with the reason if it cannot.
// `reachable`: every token is what the merges make of its bytes, so that whole_pieces changes nothing.
void check_expressible(const TokenizerParts& parts, TokenizerFormat format, bool reachable);
// The parts with scores where they are SentencePiece's and merges say what the scores would; throws kUse
// naming the format where no scores do.
TokenizerParts with_scores(const TokenizerParts& parts, std::string_view format);
// Writes; the parts must be expressible. kVocabAndMerges: into a folder.
void write_tokenizer(const TokenizerParts& parts, TokenizerFormat format, const Path& path);

}  // namespace tril
