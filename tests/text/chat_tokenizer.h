// A small byte-level BPE with the special tokens of one chat template or another.
#pragma once

#include <string>
#include <vector>

#include "tril/base/parallel.h"
#include "tril/text/bpe_train.h"
#include "tril/text/tokenizer.h"

namespace tril::testing {

inline Tokenizer chat_tokenizer(std::vector<std::string> specials) {
  specials.emplace_back(kEndOfText);
  SerialExecutor executor;
  const std::string text =
      "Hello there, how are you? I am well. What is two and two? Four. User: hi. Assistant: hello. "
      "system user assistant model Hello Hello well well are are you you\n\n\n\n\n\n\n\n";
  BpeRecipe recipe;
  recipe.vocabulary = 256 + 40 + static_cast<int64_t>(specials.size());
  recipe.specials = std::move(specials);
  return Tokenizer::train_bpe(recipe, executor, [&](BpeTrainer& trainer) { trainer.add(text); });
}

}  // namespace tril::testing
