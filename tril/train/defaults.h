// Sizes for the data and the machine: what a run takes for options that were left at "choose".
//
// The rules are simple and fixed. Explicit values always win.
//   tokenizer   characters up to 2 MB of text with at most 256 distinct ones; else byte-pair encoding with
//               512 (to 256 KB), 1024 (to 4 MB), 2048 (to 32 MB), 4096 (to 256 MB) or 8192 ids
//   sizes       the largest shape of a ladder for which the time allows 5 tokens for each
//               weight, that has at most twice as many weights as the data has tokens, and that fits the
//               memory
//   steps       as the time allows (step_time.h), at most 40 passes over the data (or 200 steps, if that is
//               more)
//   batch       2,048 tokens a step; where that needs too much memory, the fastest way to compute the same
//               step in less: more micro-batches, or activation checkpointing
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tril/data/documents.h"
#include "tril/train/options.h"

namespace tril {

struct TextFacts {
  int64_t bytes = 0;
  int64_t documents = 0;
  int64_t distinct_characters = 0;  // code points; counting stops at 257
};
TextFacts text_facts(std::span<const Document> documents);

struct RunFacts {
  int64_t vocabulary = 0;  // of the tokenizer
  int64_t train_tokens = 0;
  int64_t validation_tokens = 0;
  double gflops = 100;  // of a large product on all threads: measure_matmul_gflops
  int threads = 1;
  int64_t memory = 0;        // bytes the trainer may take, 0: any number
  double seconds = 240;      // what the training may take
  int64_t total_tokens = 0;  // if > 0, the length of the run instead of the seconds
};

// Why the model is not a size larger.
enum class SizeLimit { kGiven, kTime, kText, kMemory, kLargest };

// Fills `tokenizer` and, for a byte-pair tokenizer that is to be trained, `vocab`.
void choose_tokenizer(TrainOptions& options, const TextFacts& text);
// Fills the context alone, for tokenize() which must know it; RunFacts' tokens may still be 0 then.
void choose_context(TrainOptions& options, const TextFacts& text);
// Fills everything else. Throws kUse for impossible sizes (TransformerConfig::resolved). Where nothing fits
// the memory, what takes least is chosen, and whoever asked compares.
SizeLimit choose_sizes(TrainOptions& options, const RunFacts& facts);
// Fills `checkpointing`, and with `divide_batch` divides the batch into more micro-batches: of what fits the
// memory that which takes least time.
void choose_memory(TrainOptions& options, const TransformerConfig& config, const RunFacts& facts,
                   bool divide_batch);

// Named settings: --preset NAME, and the shapes of the benchmarks.
struct Preset {
  std::string_view name;
  std::string_view about;
  TrainOptions options;
  int64_t vocabulary;  // of the benchmark; a run takes its tokenizer's
};
const std::vector<Preset>& presets();
const Preset& find_preset(std::string_view name);  // throws kUse listing the names
// The preset's options; with another architecture, unless `arch` is empty, and then without the preset's own
// changes of its block.
TrainOptions preset_options(const Preset& preset, std::string_view arch);

}  // namespace tril
