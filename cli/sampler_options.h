// The options of a command that says how a model's next token is chosen, and where its text ends.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "tril/generate/generate.h"
#include "tril/interop/stored_model.h"

namespace tril::cli {

// As a command line gives them.
struct SamplerArguments {
  int64_t max_tokens = 200;
  double temperature = 0.8, top_p = 1, min_p = 0;
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  int64_t top_k = 0, no_repeat_ngram = 0;
  uint64_t seed = 1;
  std::vector<std::string> logit_bias, stop, stop_id;
  std::string cache = "f32";

  void add_to(CommandLine& line);
  // Throws kUse naming the option. What the model's files say ends a text is a stop id too, and end-of-text.
  GenerateOptions options(const LoadedModel& model) const;
  // With \n, \t and \\ for what they stand for.
  std::vector<std::string> stop_strings() const;
};

}  // namespace tril::cli
