#include "cli/command.h"
#include "cli/signals.h"
#include "cli/train_loop.h"
#include "cli/train_report.h"

namespace tril::cli {

int train_command(const Arguments& words) {
  TrainArguments arguments;
  if (!parse_train_arguments(words, arguments)) return 0;
  ThreadPool pool(static_cast<int>(arguments.threads));
  TrainRun run = prepare_run(arguments, pool);
  if (run.checkpoint && run.steps_done >= run.options.steps) {
    complete_model_folder(run, pool);
    print_already_finished(arguments, run);
    return 0;
  }
  install_stop_signals();
  print_plan(arguments, run);
  return run_training(arguments, run, pool);
}

}  // namespace tril::cli
