// The parts of `tril tokenizer`: each takes the words after its name.
#pragma once

#include "cli/command.h"

namespace tril::cli {

int tokenizer_train(const Arguments&);
int tokenizer_encode(const Arguments&);
int tokenizer_decode(const Arguments&);
int tokenizer_info(const Arguments&);
int tokenizer_compare(const Arguments&);
int tokenizer_export(const Arguments&);

}  // namespace tril::cli
