// The options that say how sources of text are read.
#pragma once

#include <string>

#include "cli/command.h"
#include "tril/data/sources.h"

namespace tril::cli {

// As a command line gives them.
struct SourceArguments {
  std::string separator, field = "text", encoding = "utf-8", extensions, on_error = "stop";
  void add_to(CommandLine& line);
  // Broken documents that are left out are told on standard error, the first ones.
  SourceOptions options() const;
};

}  // namespace tril::cli
