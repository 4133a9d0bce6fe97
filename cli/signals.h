// Ctrl-C, SIGTERM and a closed terminal ask a run to stop after its step; the second time the process ends
// at once with code 130.
#pragma once

namespace tril::cli {

void install_stop_signals();
bool stop_requested();

}  // namespace tril::cli
