// The memory of the machine against what a run would take.
#pragma once

#include <string>
#include <string_view>

#include "tril/train/options.h"

namespace tril::cli {

// Bytes that this process may still use: of the machine and of its control group.
double available_memory();

// Bytes of memory that this process has now, the program, its threads, the text, and what the products of a
// first step add: code that the library generates, copies of operands.
int64_t process_bytes();

// "4G", "1.5 GB", "512MiB" as bytes. Throws kUse.
int64_t parse_bytes(std::string_view where, std::string_view text);

// What a trainer may take beside what this process has.
struct MemoryLimit {
  double bytes = 0;
  int64_t asked = 0;  // the --memory that sets it; 0: what is free
};
MemoryLimit free_memory();
MemoryLimit asked_memory(int64_t asked);

// Throws kUse with the memory a run would take (Trainer::plan_memory) and a size that fits, before anything
// of that size exists.
void check_memory(const TransformerConfig& config, const TrainOptions& options, int threads,
                  const MemoryLimit& limit);

// The same for sizes of which some are still to be chosen: those count as small. Before text is read and
// sizes are chosen, so that an impossible one fails at once.
void check_given_sizes(const TrainOptions& options, int threads, const MemoryLimit& limit);

}  // namespace tril::cli
