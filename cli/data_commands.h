// The parts of `tril data`: one function each, and what they share.
#pragma once

#include "cli/command.h"
#include "cli/source_options.h"
#include "tril/containers/json.h"
#include "tril/data/token_store.h"

namespace tril::cli {

int data_build_command(const Arguments&);
int data_info_command(const Arguments&);
int data_lint_command(const Arguments&);
int data_show_command(const Arguments&);
int data_export_command(const Arguments&);

TokenStore open_store(const std::string& folder);  // with a message for what is none

}  // namespace tril::cli
