#include "tril/base/parallel.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <fstream>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sched.h>
#endif

#include "tril/base/error.h"

namespace tril {
namespace {

// The worker number of this thread while it runs chunks of `pool`, for nested calls.
thread_local const void* current_pool = nullptr;
thread_local int current_worker = 0;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// About 30 (AMD) to 90 (Intel since Skylake) microseconds: longer than the gaps between the kernels of a
// training step, about what waking a sleeping worker costs.
constexpr int kSpins = 2000;

// Spins, then gives the processor away between looks: with more threads than cores the one waited for may
// not be running.
template <class Condition>
void wait_until(int spins, Condition condition) {
  for (int spin = 0; !condition(); ++spin) {
    if (spin < spins) {
      pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace

struct ThreadPool::Impl {
  int spins = 0;
  std::vector<std::thread> workers;
  std::mutex caller;  // held by the outside thread that owns the pool

  // One job at a time. Its chunks are shared out in equal ranges, one a worker: a worker takes its own first,
  // so that what it wrote in the last job (the same rows, mostly) is still in its cache, then those of
  // others. Taking a chunk is counting `remaining` down from a positive value, and whoever did so may read
  // `end` and `body`: they were stored before `remaining`, and do not change before `done` has counted the
  // chunk. A worker that wakes late thus finds no chunk, or one of the job that is now running.
  //
  // Each on a cache line of its own: idle workers look at the first while busy ones change the others.
  struct alignas(64) Share {
    std::atomic<int64_t> remaining{0};
    int64_t end = 0;
  };
  alignas(64) std::atomic<uint64_t> job{0};  // counts the jobs, to be noticed by idle workers
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<int64_t> done{0};
  alignas(64) FunctionRef<void(int64_t, int)> body;
  std::vector<Share> shares;

  std::mutex sleep_mutex;
  std::condition_variable wake;
  std::atomic<int> sleepers{0};

  std::mutex error_mutex;
  std::exception_ptr error;
  int64_t error_chunk = 0;

  ~Impl() {
    {
      const std::lock_guard lock(sleep_mutex);
      stop = true;
    }
    wake.notify_all();
    for (auto& w : workers) w.join();
  }

  // Takes chunks until none is left.
  void work(int worker) {
    const void* const outer_pool = std::exchange(current_pool, this);
    const int outer_worker = std::exchange(current_worker, worker);
    int64_t taken = 0;
    for (size_t i = 0; i < shares.size(); ++i) {
      Share& share = shares[(static_cast<size_t>(worker) + i) % shares.size()];
      while (share.remaining.load(std::memory_order_relaxed) > 0) {
        const int64_t left = share.remaining.fetch_sub(1, std::memory_order_acq_rel);
        if (left <= 0) break;
        run_chunk(share.end - left, worker);
        ++taken;
      }
    }
    if (taken > 0) done.fetch_add(taken, std::memory_order_acq_rel);
    current_pool = outer_pool;
    current_worker = outer_worker;
  }

  void run_chunk(int64_t chunk, int worker) {
    try {
      body(chunk, worker);
    } catch (...) {
      const std::lock_guard lock(error_mutex);
      if (!error || chunk < error_chunk) {
        error = std::current_exception();
        error_chunk = chunk;
      }
    }
  }

  void loop(int worker) {
    uint64_t seen = 0;
    while (true) {
      for (int spin = 0; spin < spins && job.load(std::memory_order_acquire) == seen && !stop.load(); ++spin)
        pause();
      if (job.load(std::memory_order_acquire) == seen && !stop.load()) {
        std::unique_lock lock(sleep_mutex);
        sleepers.fetch_add(1);
        wake.wait(lock, [&] { return job.load() != seen || stop.load(); });
        sleepers.fetch_sub(1);
      }
      if (stop.load()) return;
      seen = job.load();
      work(worker);
    }
  }
};

ThreadPool::ThreadPool(int threads) : impl_(std::make_unique<Impl>()) {
  check_use(threads >= 1 && threads <= 4096, "thread pool: {} threads asked for; give 1 to 4096", threads);
  // With more threads than cores a spinning one holds up the one it waits for.
  impl_->spins = threads <= available_threads() ? kSpins : 0;
  impl_->shares = std::vector<Impl::Share>(static_cast<size_t>(threads));
  impl_->workers.reserve(static_cast<size_t>(threads - 1));
  try {
    for (int w = 1; w < threads; ++w) impl_->workers.emplace_back([impl = impl_.get(), w] { impl->loop(w); });
  } catch (const std::system_error& e) {
    fail(ErrorKind::kUse, "thread pool: the system refused thread {} of {}: {}; ask for fewer threads",
         impl_->workers.size() + 2, threads, e.code().message());
  }
}

ThreadPool::~ThreadPool() = default;

int ThreadPool::threads() const { return static_cast<int>(impl_->workers.size()) + 1; }

void ThreadPool::run(int64_t chunks, FunctionRef<void(int64_t, int)> body) {
  if (chunks <= 0) return;
  if (current_pool == impl_.get()) {  // nested: this worker does it alone
    for (int64_t c = 0; c < chunks; ++c) body(c, current_worker);
    return;
  }
  const std::lock_guard owner(impl_->caller);
  Impl& p = *impl_;
  if (chunks == 1 || p.workers.empty()) {
    const void* const outer_pool = std::exchange(current_pool, &p);
    const int outer_worker = std::exchange(current_worker, 0);
    struct Restore {
      const void* pool;
      int worker;
      ~Restore() { current_pool = pool, current_worker = worker; }
    } restore{outer_pool, outer_worker};
    for (int64_t c = 0; c < chunks; ++c) body(c, 0);
    return;
  }
  p.body = body;
  p.done.store(0, std::memory_order_relaxed);
  const auto workers = static_cast<int64_t>(p.shares.size());
  for (int64_t w = 0, begin = 0; w < workers; ++w) {
    Impl::Share& share = p.shares[static_cast<size_t>(w)];
    share.end = (w + 1) * chunks / workers;
    share.remaining.store(share.end - begin, std::memory_order_release);
    begin = share.end;
  }
  p.job.fetch_add(1);
  if (p.sleepers.load() > 0) {
    { const std::lock_guard lock(p.sleep_mutex); }
    p.wake.notify_all();
  }
  p.work(0);
  wait_until(p.spins, [&] { return p.done.load(std::memory_order_acquire) == chunks; });
  if (p.error) std::rethrow_exception(std::exchange(p.error, nullptr));
}

namespace {

#if defined(__linux__)
// The processors' worth of time that a container may use (cgroup v2, then v1), rounded up; a large number if
// there is no limit.
int container_limit() {
  double quota = 0, period = 0;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2) {
    v2 >> quota >> period;  // "max 100000" leaves both 0
  } else {
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;  // -1: no limit
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  }
  constexpr int kNone = 1 << 20;
  if (!(quota > 0) || !(period > 0)) return kNone;
  return static_cast<int>(std::clamp(std::ceil(quota / period), 1.0, double{kNone}));
}
#endif

}  // namespace

int available_threads() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) count = CPU_COUNT(&set);
  count = std::min(count, container_limit());
#endif
  return std::max(1, count);
}

}  // namespace tril
