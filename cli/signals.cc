#include "cli/signals.h"

#include <unistd.h>

#include <csignal>
#include <initializer_list>

namespace tril::cli {
namespace {

volatile std::sig_atomic_t requests = 0;

void on_signal(int) {
  if (requests > 0) _exit(130);
  requests = 1;
}

}  // namespace

void install_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction before = {};
    // nohup and shells that start a job in the background ignore a signal for the job: it stays so.
    if (sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) continue;
    sigaction(number, &action, nullptr);
  }
  // A reader that left (`| head`) is noticed where output is written, not by dying in the middle of a step.
  std::signal(SIGPIPE, SIG_IGN);
}

bool stop_requested() { return requests > 0; }

}  // namespace tril::cli
