// From the arguments of `tril train` to a run that can start: text, tokenizer, tokens, resolved options; and
// whether the folder already holds this run.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/train_options.h"
#include "tril/data/documents.h"
#include "tril/interop/model_folder.h"
#include "tril/text/tokenizer.h"
#include "tril/train/checkpoint.h"
#include "tril/train/defaults.h"

namespace tril::cli {

struct MachineFacts {
  double fma_peak_gflops = 0;
  double matmul_gflops = 0;
};

struct TrainRun {
  Path out;
  TrainOptions options;  // resolved
  TransformerConfig config;
  std::unique_ptr<Tokenizer> tokenizer;
  bool has_text = false;
  Corpus corpus;
  MachineFacts machine;
  RunFacts facts;  // what the options were chosen by
  SizeLimit limit = SizeLimit::kGiven;
  int64_t process_bytes = 0;         // of this process before the trainer exists
  std::string first_word;            // of the text, to show a command that generates
  std::string chat_template;         // of conversations: which one, and why
  int64_t least_tokens = 0;          // of conversations: the length of the run if nobody gave one
  std::string text_crc32;            // of all text, document after document, in hexadecimal
  std::string identity;              // JSON: how this run is made; kept in checkpoints and as run.json
  std::optional<Path> checkpoint;    // to resume from
  int64_t steps_done = 0;            // of that checkpoint
  bool out_of_patience = false;      // at that checkpoint: the run has ended early
  std::vector<std::string> damaged;  // newer checkpoints that are not whole, and what is wrong with them
  int64_t skipped_empty = 0;         // files
  int64_t skipped_broken = 0;        // documents
  std::unique_ptr<LoadedModel> start_model;  // of --from, until the run has its weights
  std::string start_weights_crc32;           // of that model's file, in hexadecimal
};

// It has all its steps, or has ended early.
inline bool is_finished(const TrainRun& run) {
  return run.checkpoint && (run.steps_done >= run.options.steps || run.out_of_patience);
}

// Throws kUse / kData: unreadable text, impossible sizes, a folder that holds another run.
TrainRun prepare_run(const TrainArguments& arguments, Executor& executor);
// The same run without a folder, and perhaps without a text: then with the vocabulary that is given, or the
// preset's, or an assumed one. Not compared with the memory that is free.
TrainRun prepare_plan(const TrainArguments& arguments, Executor& executor);

}  // namespace tril::cli
