#include "cli/command.h"
#include "cli/run_folder.h"
#include "cli/signals.h"
#include "cli/train_loop.h"
#include "cli/train_report.h"

namespace tril::cli {

int train_command(const Arguments& words) {
  TrainArguments arguments;
  if (!parse_train_arguments(words, arguments)) return 0;
  ThreadPool pool(static_cast<int>(arguments.threads));
  TrainRun run = prepare_run(arguments, pool);
  if (is_finished(run)) {
    complete_run_folder(run);
    print_already_finished(arguments, run);
    return 0;
  }
  install_stop_signals();
  print_plan(arguments, run);
  return run_training(arguments, run, pool);
}

}  // namespace tril::cli
