// A run's log as an event file of TensorBoard: TFRecords (containers/tfrecord.h) of tensorflow.Event messages
// (tensorboard/compat/proto/event.proto and summary.proto), one for each step, with scalars as
// `simple_value`:
//
//   loss/train, loss/validation, bits_per_byte    nats a token; bits a byte of validation text
//   learning_rate, gradient_norm, tokens, tokens_per_s
//
// An event has a time of day, a log line has not: `start` (seconds since 1970) plus the line's seconds, so
// that TensorBoard's relative time is the time trained, without the pauses of a run that was stopped.
#pragma once

#include "tril/train/log.h"

namespace tril {

// The event of a step, framed.
std::string tensorboard_event(const LogEntry& entry, double start);

// Writes what `entries` hold as a new event file into `folder` and returns its path; further events can be
// appended. Its first events tell a TensorBoard that is running to forget what it has read of the run, so a
// step that was lost with a killed run does not stay beside the one that was computed again. Of the event
// files that this function wrote there before, the last is emptied and the others are removed: TensorBoard's
// older reader goes on to the next file from the end of one that is still there. Throws kData if it cannot be
// written.
Path write_event_file(const Path& folder, std::span<const LogEntry> entries, double start);

}  // namespace tril
