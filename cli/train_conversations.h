// Conversations as the text of a run: JSON lines with messages, written in a chat template.
#pragma once

#include "cli/train_setup.h"

namespace tril::cli {

// Whether the files of a run are conversations. Throws kUse if only some of them are.
bool are_conversations(const std::vector<SourceFile>& files, const SourceOptions& options);

// Sets corpus, tokenizer (unless --from has set it), the template's name among the options, and the context
// where it is open. Throws kUse / kData: broken ones, options that say something else.
void read_conversation_data(const TrainArguments& arguments, const std::vector<SourceFile>& files,
                            const SourceOptions& options, TrainRun& run);

// Lines of the plan: what is learned, what was cut, the template.
std::string conversation_lines(const TrainRun& run);

}  // namespace tril::cli
