// The text of a run, its tokenizer and its tokens: from files of any kind, or from a token store.
#pragma once

#include "cli/train_setup.h"

namespace tril::cli {

// Sets corpus, tokenizer (unless --from has set it), the facts about both, and the context where it is open.
// Throws kUse / kData: what cannot be read, options that a store has decided otherwise.
void read_data(const TrainArguments& arguments, TrainRun& run);

}  // namespace tril::cli
