// --weights of the commands that use a model without training it.
#pragma once

#include <string>

#include "cli/command.h"
#include "tril/interop/stored_model.h"

namespace tril::cli {

struct WeightsOption {
  std::string type = "stored";
  void add_to(CommandLine& line);
  // The model with its weights of this type.
  LoadedModel load(const Path& path, Executor& executor) const;
};

}  // namespace tril::cli
