#include "tril/base/parallel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::expect_error;

// Runs `chunks` and expects each to be run once, by a worker with a possible number.
void expect_each_once(Executor& executor, int64_t chunks) {
  std::vector<std::atomic<int>> runs(static_cast<size_t>(chunks));
  std::atomic<int> bad_workers{0};
  executor.run(chunks, [&](int64_t chunk, int worker) {
    runs[static_cast<size_t>(chunk)].fetch_add(1, std::memory_order_relaxed);
    if (worker < 0 || worker >= executor.threads()) ++bad_workers;
  });
  for (int64_t c = 0; c < chunks; ++c)
    ASSERT_EQ(runs[static_cast<size_t>(c)], 1) << "chunk " << c << " of " << chunks;
  EXPECT_EQ(bad_workers, 0);
}

TEST(Parallel, EveryChunkRunsOnce) {
  SerialExecutor serial;
  for (const int64_t chunks : {0, 1, 2, 100}) expect_each_once(serial, chunks);
  for (const int threads : {1, 2, 3, 4, 17}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t chunks : {0, 1, 2, 3, 16, 17, 18, 1000}) expect_each_once(pool, chunks);
  }
}

TEST(Parallel, NegativeCountsRunNothing) {
  ThreadPool pool(2);
  int64_t runs = 0;
  pool.run(-5, [&](int64_t, int) { ++runs; });
  parallel_for(pool, -1, 4, [&](int64_t, int64_t, int) { ++runs; });
  parallel_for(pool, 0, 4, [&](int64_t, int64_t, int) { ++runs; });
  EXPECT_EQ(runs, 0);
}

TEST(Parallel, ForCutsByGrain) {
  ThreadPool pool(3);
  for (const int64_t grain : {-3, 0, 1, 3, 10, 11, 1000}) {
    std::vector<int> covered(10);
    std::atomic<int> calls{0};
    const int64_t step = std::max<int64_t>(grain, 1);
    parallel_for(pool, 10, grain, [&](int64_t begin, int64_t end, int) {
      ++calls;
      EXPECT_EQ(begin % step, 0);
      EXPECT_EQ(end, std::min<int64_t>(10, begin + step));
      for (int64_t i = begin; i < end; ++i) ++covered[static_cast<size_t>(i)];
    });
    EXPECT_EQ(calls, divide_up(10, step)) << grain;
    EXPECT_EQ(covered, std::vector<int>(10, 1)) << grain;
  }
}

TEST(Parallel, DryExecutorRunsNothing) {
  DryExecutor dry(5);
  EXPECT_EQ(dry.threads(), 5);
  dry.run(3, [](int64_t, int) { FAIL(); });
}

TEST(Parallel, ImpossibleThreadCounts) {
  for (const int threads : {0, -1, 4097})
    expect_error(ErrorKind::kUse, {std::to_string(threads) + " threads asked for; give 1 to 4096"},
                 [&] { ThreadPool pool(threads); });
  EXPECT_GE(available_threads(), 1);
}

// Two chunks that wait for each other can only end on two threads at once.
TEST(Parallel, ChunksRunAtTheSameTime) {
  ThreadPool pool(2);
  for (int repeat = 0; repeat < 20; ++repeat) {
    std::atomic<int> arrived{0};
    std::vector<int> worker_of(2, -1);
    pool.run(2, [&](int64_t chunk, int worker) {
      worker_of[static_cast<size_t>(chunk)] = worker;
      ++arrived;
      while (arrived < 2) std::this_thread::yield();
    });
    EXPECT_EQ(worker_of[0] + worker_of[1], 1);
    EXPECT_NE(worker_of[0], worker_of[1]);
  }
}

// Per-worker workspace needs no lock: one worker number is never in two chunks at a time.
TEST(Parallel, AWorkerNumberIsInOneChunkAtATime) {
  ThreadPool pool(4);
  std::vector<std::atomic<int>> inside(4);
  std::atomic<int> collisions{0};
  const auto body = [&](int64_t, int worker) {
    if (inside[static_cast<size_t>(worker)].fetch_add(1) != 0) ++collisions;
    std::this_thread::yield();
    inside[static_cast<size_t>(worker)].fetch_sub(1);
  };
  std::vector<std::thread> callers;
  for (int t = 0; t < 3; ++t) {
    callers.emplace_back([&] {
      for (int64_t i = 0; i < 50; ++i) pool.run(1 + i % 9, body);
    });
  }
  for (auto& t : callers) t.join();
  EXPECT_EQ(collisions, 0);
}

TEST(Parallel, NestedRunsStayOnTheirWorker) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (const int64_t outer_chunks : {1, 8}) {
      std::atomic<int> inner{0}, strays{0};
      pool.run(outer_chunks, [&](int64_t, int outer_worker) {
        const auto thread = std::this_thread::get_id();
        int64_t next = 0;
        pool.run(5, [&](int64_t chunk, int worker) {
          strays += worker != outer_worker || std::this_thread::get_id() != thread || chunk != next++;
          pool.run(2, [&](int64_t, int innermost) { inner += innermost == outer_worker; });
        });
      });
      EXPECT_EQ(inner, 10 * outer_chunks);
      EXPECT_EQ(strays, 0);
      expect_each_once(pool, 20);
    }
  }
}

TEST(Parallel, APoolInsideAnother) {
  ThreadPool outer(2), inner(2);
  std::atomic<int> runs{0};
  outer.run(6, [&](int64_t, int) {
    inner.run(4, [&](int64_t, int) { ++runs; });
    outer.run(2, [&](int64_t, int) { ++runs; });
  });
  EXPECT_EQ(runs, 36);
}

TEST(Parallel, TheLowestThrowingChunkWins) {
  for (const int threads : {1, 2, 4}) {
    ThreadPool pool(threads);
    for (int repeat = 0; repeat < 30; ++repeat) {
      std::atomic<int> runs{0};
      try {
        pool.run(32, [&](int64_t chunk, int) {
          ++runs;
          if (chunk % 3 == 2) throw std::runtime_error(std::to_string(chunk));
        });
        ADD_FAILURE() << "nothing was thrown";
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "2");
      }
      if (threads > 1) {
        EXPECT_EQ(runs, 32);  // the others still ran: no chunk is left half-scheduled
      }
      expect_each_once(pool, 7);
    }
  }
}

TEST(Parallel, TheLowestThrowingChunkWinsAlsoWhenItIsLast) {
  ThreadPool pool(2);
  for (int repeat = 0; repeat < 10; ++repeat) {
    std::atomic<bool> second_throws{false};
    expect_error(ErrorKind::kUse, {"chunk 0 failed"}, [&] {
      pool.run(2, [&](int64_t chunk, int) {
        if (chunk == 0) {
          while (!second_throws) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        second_throws = true;
        fail(ErrorKind::kUse, "chunk {} failed", chunk);
      });
    });
  }
}

TEST(Parallel, ExceptionsCrossNestedRunsAndSingleChunks) {
  ThreadPool pool(2);
  const auto nested = [&](int64_t chunks) {
    pool.run(chunks, [&](int64_t, int) {
      pool.run(3, [](int64_t c, int) { check_use(c != 1, "chunk {} is bad; give another", c); });
    });
  };
  expect_error(ErrorKind::kUse, {"chunk 1 is bad"}, [&] { nested(1); });
  expect_error(ErrorKind::kUse, {"chunk 1 is bad"}, [&] { nested(4); });
  expect_each_once(pool, 7);
}

TEST(Parallel, ManyTinyJobs) {
  for (const int threads : {2, 4}) {
    ThreadPool pool(threads);
    // Not atomic on purpose: each chunk owns its counter, and run() must order one job after another.
    std::vector<int64_t> counters(5);
    constexpr int kJobs = 5000;
    for (int job = 0; job < kJobs; ++job) {
      if (job % 50 == 0) {  // a job that needs two threads, so that the next ones find a worker awake
        std::atomic<int> arrived{0};
        pool.run(2, [&](int64_t, int) {
          ++arrived;
          while (arrived < 2) std::this_thread::yield();
        });
      }
      const int64_t chunks = 1 + job % 5;
      pool.run(chunks, [&](int64_t chunk, int) { counters[static_cast<size_t>(chunk)] += job; });
    }
    for (int64_t c = 0; c < 5; ++c) {
      int64_t expected = 0;
      for (int job = 0; job < kJobs; ++job) expected += job % 5 >= c ? job : 0;
      EXPECT_EQ(counters[static_cast<size_t>(c)], expected) << c;
    }
  }
}

// Pauses of about the time that workers spin before they sleep: the moment where a wake-up can be lost.
// With two threads on two processors; with more than there are processors they sleep at once.
TEST(Parallel, WorkersWakeFromSleep) {
  for (const int threads : {2, 3}) {
    ThreadPool pool(threads);
    int64_t sum = 0;
    for (int job = 0; job < 200; ++job) {
      std::this_thread::sleep_for(std::chrono::microseconds(job % 10 == 0 ? 2000 : job % 100));
      std::atomic<int> arrived{0};
      std::vector<int64_t> part(static_cast<size_t>(threads));
      pool.run(threads, [&](int64_t chunk, int) {
        part[static_cast<size_t>(chunk)] = chunk;
        // All must be awake for this to end.
        ++arrived;
        while (arrived < threads) std::this_thread::yield();
      });
      for (const int64_t value : part) sum += value;
    }
    EXPECT_EQ(sum, 200 * threads * (threads - 1) / 2);
  }
}

TEST(Parallel, ManyMoreThreadsThanProcessors) {
  ThreadPool pool(4 * available_threads() + 9);
  for (int job = 0; job < 50; ++job) expect_each_once(pool, 1 + job * 7 % 100);
}

TEST(Parallel, CallersFromOutsideTakeTurns) {
  ThreadPool pool(3);
  std::vector<int64_t> sums(4);
  std::vector<std::thread> callers;
  for (size_t t = 0; t < sums.size(); ++t) {
    callers.emplace_back([&, t] {
      for (int job = 0; job < 200; ++job) {
        std::vector<int64_t> part(8);
        pool.run(8, [&](int64_t chunk, int) { part[static_cast<size_t>(chunk)] = chunk; });
        for (const int64_t p : part) sums[t] += p;
      }
    });
  }
  for (auto& t : callers) t.join();
  EXPECT_EQ(sums, std::vector<int64_t>(4, 200 * 28));
}

TEST(Parallel, PoolsComeAndGo) {
  for (int i = 0; i < 50; ++i) {
    ThreadPool pool(1 + i % 4);
    if (i % 3 != 0) expect_each_once(pool, i);
    if (i % 7 == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
  }
}

// The contract behind "bit-equal for any number of threads": fixed chunks, partial sums added in order.
TEST(Parallel, FixedChunksGiveTheSameBits) {
  std::vector<float> x(10000);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(i + 1);
  std::vector<float> sums;
  for (const int threads : {1, 2, 3, 4}) {
    ThreadPool pool(threads);
    std::vector<float> partial(static_cast<size_t>(divide_up(10000, 64)));
    parallel_for(pool, 10000, 64, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        partial[static_cast<size_t>(begin / 64)] += x[static_cast<size_t>(i)];
    });
    float sum = 0;
    for (const float p : partial) sum += p;
    sums.push_back(sum);
  }
  EXPECT_EQ(sums, std::vector<float>(4, sums[0]));
  EXPECT_NEAR(sums[0], 9.787606, 1e-4);
}

}  // namespace
}  // namespace tril
