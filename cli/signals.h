// Ctrl-C, SIGTERM and a closed terminal ask a run to stop after its step; the second time the process ends
// at once with code 130.
#pragma once

namespace tril::cli {

void install_stop_signals();
bool stop_requested();

// Of a conversation: Ctrl-C is counted, and interrupts what waits for input. A third time while nobody looks
// ends the process with code 130.
void install_interrupt_count();
int interrupts();  // since the last call of clear_interrupts()
void clear_interrupts();

}  // namespace tril::cli
