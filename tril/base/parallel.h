// parallel_for over fixed chunks: the only place where threads exist.
//
// How work is cut into chunks depends on the work alone, never on the number of threads; which thread runs
// a chunk is not fixed. Code that writes disjoint outputs per chunk, and adds partial sums in chunk order,
// therefore gives the same bits for any number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "tril/base/function_ref.h"
#include "tril/base/sizes.h"

namespace tril {

// Who runs chunks. An embedder may bring its own; kernels only see this.
class Executor {
 public:
  virtual ~Executor() = default;
  // Workers are numbered 0 .. threads() - 1; use the number to index per-thread workspace.
  virtual int threads() const = 0;
  // Calls body(chunk, worker) once for each chunk in [0, chunks) and returns when all are done. If bodies
  // throw, the exception of the lowest such chunk that ran is rethrown here. Called from inside a body, it
  // runs the chunks one after another as that worker.
  virtual void run(int64_t chunks, FunctionRef<void(int64_t chunk, int worker)> body) = 0;
};

// Runs everything in the calling thread.
class SerialExecutor final : public Executor {
 public:
  int threads() const override { return 1; }
  void run(int64_t chunks, FunctionRef<void(int64_t, int)> body) override {
    for (int64_t c = 0; c < chunks; ++c) body(c, 0);
  }
};

// Runs nothing. Together with a dry Arena it lets the code of a forward or backward pass count the memory
// that it will need: every kernel touches memory only inside run().
class DryExecutor final : public Executor {
 public:
  explicit DryExecutor(int threads) : threads_(threads) {}
  int threads() const override { return threads_; }
  void run(int64_t, FunctionRef<void(int64_t, int)>) override {}

 private:
  int threads_;
};

// A pool of std::threads, the caller being worker 0. Idle workers spin briefly, then sleep (at once where
// there are more threads than processors). One caller at a time: concurrent calls of run() from different
// outside threads are serialised. A body that runs another pool must not come back to this one from there.
class ThreadPool final : public Executor {
 public:
  explicit ThreadPool(int threads);  // throws kUse unless 1 <= threads <= 4096 and the system grants them
  ~ThreadPool() override;
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const override;
  void run(int64_t chunks, FunctionRef<void(int64_t, int)> body) override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// The processors that this process may use: its affinity mask, and the time limit of its container if less.
int available_threads();

// Calls body(begin, end, worker) over [0, count) cut into chunks of `grain` (the last one shorter).
template <class Body>
void parallel_for(Executor& executor, int64_t count, int64_t grain, Body&& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  executor.run(divide_up(count, grain), [&](int64_t chunk, int worker) {
    body(chunk * grain, std::min(count, (chunk + 1) * grain), worker);
  });
}

}  // namespace tril
