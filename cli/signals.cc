#include "cli/signals.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <initializer_list>

namespace tril::cli {
namespace {

// The handler may run in any thread.
std::atomic<int> requests = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void on_signal(int) {
  if (requests.fetch_add(1) > 0) _exit(130);
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
