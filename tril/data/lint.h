// What is odd in a token store: what a user should know before hours of training.
#pragma once

#include <string>
#include <vector>

#include "tril/base/parallel.h"
#include "tril/data/token_store.h"
#include "tril/text/tokenizer.h"

namespace tril {

struct OddCharacters {
  int64_t count = 0, documents = 0;
  int64_t first_document = -1;  // of the training side, or behind it of the validation side
};

struct LintReport {
  int64_t documents = 0, empty_documents = 0;
  int64_t ids_used = 0, vocabulary = 0;
  OddCharacters replacement;          // U+FFFD: text that was already broken
  OddCharacters control;              // U+0001 to U+001F but tab and line ends, U+007F to U+009F
  OddCharacters invisible;            // zero-width and direction marks, U+00AD, U+FEFF
  OddCharacters private_use;          // characters that Unicode gives no meaning
  OddCharacters literals;             // "<|...|>" spelled out in the text, which is ordinary text here
  OddCharacters broken;               // bytes that are no UTF-8: token ids that another program cut
  int64_t train_duplicates = 0;       // documents equal to an earlier one of the training side
  int64_t validation_duplicates = 0;  // likewise
  int64_t leaked_documents = 0;       // of validation: equal to one of training
  // Runs of kGram tokens of validation documents, sampled by their hash: how many also stand in training, and
  // the documents more than half of whose runs do.
  int64_t sampled_runs = 0, leaked_runs = 0, overlapping_documents = 0;
};
inline constexpr int64_t kGram = 13;

// Verifies the store first. Throws kData where it is damaged, kUse if the tokenizer is another.
LintReport lint_store(const TokenStore& store, const Tokenizer& tokenizer, Executor& executor);

}  // namespace tril
