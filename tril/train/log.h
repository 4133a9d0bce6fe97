// The log of a run: log.jsonl, one JSON object a line.
//
//   {"step":20,"loss_nats":3.1,"gradient_norm":0.8,"learning_rate":0.0002,"tokens":15360,"seconds":0.41,
//    "tokens_per_s":37460.0}
//   the same with "skipped": true, and null for a loss that is not finite, when the step was not applied
//   the same with "validation_loss_nats", "bits_per_byte", "validation_tokens" when the step was evaluated
#pragma once

#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tril/base/files.h"
#include "tril/containers/json.h"
#include "tril/train/trainer.h"

namespace tril {

// `tokens`: trained on so far; `seconds`: of the whole run so far; `tokens_per_s`: of this step.
Json log_line(const StepReport& report, int64_t tokens, double seconds, double tokens_per_s);

// Keeps the lines up to `steps_done`: later ones (of a run that went on and was lost) and a torn last line
// go. A file that is not there stays so. Throws kData if it cannot be read or written.
void trim_log(const Path& path, int64_t steps_done);

// A line as it is read again; a value that the line lacks is NaN.
struct LogEntry {
  static constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
  int64_t step = 0;
  double loss_nats = kMissing, gradient_norm = kMissing, learning_rate = kMissing, tokens = kMissing;
  double validation_loss_nats = kMissing, bits_per_byte = kMissing, validation_tokens = kMissing;
  double seconds = kMissing, tokens_per_s = kMissing;
};

// The values of an entry besides its step, by their names in the file.
struct LogColumn {
  const char* name;
  double LogEntry::*value;
};
std::span<const LogColumn> log_columns();

// Returns what is wrong with the line, or nothing: then `entry` holds it. Names it does not know are left
// alone.
std::string read_log_line(const Json& line, LogEntry& entry);

struct RunLog {
  std::vector<LogEntry> entries;  // by step, ascending
  int64_t lines = 0, damaged_lines = 0;
  std::string first_damage;  // "line 57: not a JSON object"
};

// Damaged lines, such as one that a kill cut short, are passed over and counted. A step that comes again
// replaces the first of that number and all after it: a run that was lost and went on from a checkpoint.
// Throws kData if the file cannot be read.
RunLog read_log(const Path& path);

}  // namespace tril
