// The text of a run, its tokenizer and its tokens: from files of any kind, or from a token store.
#pragma once

#include <span>

#include "cli/train_setup.h"
#include "tril/data/documents.h"

namespace tril::cli {

// Sets corpus, tokenizer (unless --from has set it), the facts about both, and the context where it is open.
// Throws kUse / kData: what cannot be read, options that a store has decided otherwise.
void read_data(const TrainArguments& arguments, TrainRun& run);

// Notes the checksum of the text, and names the tokenizer among the options unless the run has one. Throws
// kUse for a --vocab that this tokenizer does not have.
void take_text(const TrainArguments& arguments, std::span<const Document> documents, const TextFacts& facts,
               TrainRun& run);

}  // namespace tril::cli
