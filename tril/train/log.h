// The log of a run: log.jsonl, one JSON object a line.
//
//   {"step":20,"loss_nats":3.1,"gradient_norm":0.8,"learning_rate":0.0002,"tokens":15360,"seconds":0.41}
//   the same with "validation_loss_nats", "bits_per_byte", "validation_tokens" when the step was evaluated
#pragma once

#include "tril/base/files.h"
#include "tril/containers/json.h"
#include "tril/train/trainer.h"

namespace tril {

// `tokens`: trained on so far; `seconds`: of the whole run so far.
Json log_line(const StepReport& report, int64_t tokens, double seconds);

// Keeps the lines up to `steps_done`: later ones (of a run that went on and was lost) and a torn last line
// go. A file that is not there stays so. Throws kData if it cannot be read or written.
void trim_log(const Path& path, int64_t steps_done);

}  // namespace tril
