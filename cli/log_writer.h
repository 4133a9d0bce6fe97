// Writes a run's log.jsonl (train/log.h says what a line holds), with the speed of each step. Lines are
// gathered for a moment, and kept when the disk is full until there is room again.
#pragma once

#include <string>

#include "tril/base/files.h"
#include "tril/containers/json.h"
#include "tril/train/trainer.h"

namespace tril::cli {

class LogWriter {
 public:
  // Goes on after `steps_done`; what a lost run wrote beyond is dropped.
  LogWriter(const Path& path, int64_t steps_done);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // `tokens` of one step. Returns the line.
  Json add(const StepReport& report, int64_t tokens);
  bool due() const;                            // lines have waited for a second
  void flush();                                // throws kData; the file then ends with a whole line
  double seconds() const { return seconds_; }  // of training, earlier parts of the run included

 private:
  Path path_;
  std::string pending_;
  double seconds_ = 0, waiting_ = 0;
};

}  // namespace tril::cli
