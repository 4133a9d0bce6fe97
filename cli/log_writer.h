// Writes a run's log.jsonl (train/log.h says what a line holds) and, if asked for, its event file for
// TensorBoard (train/tensorboard.h). Lines are gathered for a moment, and kept when the disk is full until
// there is room again.
#pragma once

#include <optional>
#include <string>

#include "tril/base/files.h"
#include "tril/containers/json.h"
#include "tril/train/trainer.h"

namespace tril::cli {

class LogWriter {
 public:
  // Goes on after `steps_done`; what a lost run wrote beyond is dropped. The event file, in the folder
  // tensorboard beside the log, is written anew from what is left of the log.
  LogWriter(const Path& path, int64_t steps_done, bool tensorboard);
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;

  // `tokens` of one step. Returns the line.
  Json add(const StepReport& report, int64_t tokens);
  bool due() const;                            // lines have waited for a second
  void flush();                                // throws kData; the files then end with a whole line or event
  double seconds() const { return seconds_; }  // of training, earlier parts of the run included

 private:
  struct File {
    Path path;
    std::string pending = {};
    void append_pending();
  };
  void start_events();

  File log_;
  std::optional<File> events_;
  double event_start_ = 0;  // see tensorboard_event()
  double seconds_ = 0, waiting_ = 0;
};

}  // namespace tril::cli
