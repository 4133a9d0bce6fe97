// From sources to a token store: streaming, in parallel, and going on where it was when it is killed.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tril/base/parallel.h"
#include "tril/data/document_reader.h"
#include "tril/data/token_store.h"
#include "tril/text/tokenizer.h"

namespace tril {

struct BuildOptions {
  SourceOptions sources;
  double validation_fraction = 0.1;
  // Leaves out documents whose whole text was seen before: 128-bit hashes, 24 to 48 bytes of memory for each.
  bool deduplicate = false;
  // A description of what decides the result beside the fields here and the files: the tokenizer.
  std::string identity;
};

struct BuildProgress {
  int64_t bytes_read = 0, bytes_total = -1;  // of the sources; -1: unknown
  int64_t documents = 0;                     // accepted, whole or not
  int64_t text_bytes = 0, tokens = 0;
};

struct BuildResult {
  bool finished = false;  // else stopped: the same call goes on
  bool resumed = false;
  bool started_anew = false;  // what a build before had begun was of other sources or options
  BuildProgress progress;
  int64_t train_tokens = 0, validation_tokens = 0;
  int64_t train_documents = 0, validation_documents = 0;
  int64_t duplicates = 0, skipped_empty = 0, skipped_broken = 0;
  bool split_by_ends = false;  // few documents: the last part of each is for validation
};

// Makes the tokenizer when a build begins; one that goes on has it in its folder.
using MakeTokenizer = std::function<Tokenizer(const std::vector<SourceFile>& files)>;

// Builds the store `out`, which must not exist, in the folder "<out>.building" beside it, and renames that
// when it is complete. `go_on` is called after each batch of some MB; false stops. The same bytes for any
// number of threads. Which side a document is on depends on its first 64 KiB, as in split_documents(). What
// fails before anything was saved leaves no folder. Throws kUse for a file of conversations, kData where
// fewer than two tokens are for training.
BuildResult build_token_store(const std::vector<Path>& sources, const MakeTokenizer& make_tokenizer,
                              const BuildOptions& options, const Path& out, Executor& executor,
                              const std::function<bool(const BuildProgress&)>& go_on);

// `options` for this tokenizer: its ids and end-of-text, and pieces of at least 64 MiB where the parts of a
// cut text are other tokens than the whole.
SourceOptions options_for(const Tokenizer& tokenizer, SourceOptions options);

// The token behind each document: end-of-text where there are several, unless it is begin-of-text as well:
// then the next document has it in front. -1: none.
int32_t end_of_documents(const Tokenizer& tokenizer, bool several);

}  // namespace tril
