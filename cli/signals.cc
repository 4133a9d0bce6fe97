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

constexpr int kMostInterrupts = 3;
std::atomic<int> interrupt_count = 0;

void on_interrupt(int) {
  if (interrupt_count.fetch_add(1) + 1 >= kMostInterrupts) _exit(130);
}

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

void install_interrupt_count() {
  struct sigaction action = {};
  action.sa_handler = on_interrupt;  // without SA_RESTART: a read that waits ends
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int interrupts() { return interrupt_count; }
void clear_interrupts() { interrupt_count = 0; }

}  // namespace tril::cli
