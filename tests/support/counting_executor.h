// Runs chunks in the calling thread, the last ones first, and notes how many there were.
#pragma once

#include <vector>

#include "tril/base/parallel.h"

namespace tril::testing {

class CountingExecutor final : public Executor {
 public:
  explicit CountingExecutor(int threads) : threads_(threads) {}
  int threads() const override { return threads_; }
  void run(int64_t chunks, FunctionRef<void(int64_t, int)> body) override {
    runs.push_back(chunks);
    for (int64_t c = chunks; c-- > 0;) body(c, 0);
  }
  std::vector<int64_t> runs;  // chunks of each run

 private:
  int threads_;
};

}  // namespace tril::testing
