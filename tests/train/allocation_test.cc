// The training loop allocates nothing: every operator new of this program is counted.
#include <cstdlib>
#include <new>

#include "tests/train/small_run.h"

// Sanitizers bring their own operator new.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TRIL_COUNT_ALLOCATIONS 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TRIL_COUNT_ALLOCATIONS 0
#endif
#endif
#ifndef TRIL_COUNT_ALLOCATIONS
#define TRIL_COUNT_ALLOCATIONS 1
#endif

namespace {
std::atomic<int64_t> allocations{0};
}

#if TRIL_COUNT_ALLOCATIONS
void* operator new(size_t size) {
  ++allocations;
  if (void* const p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }
#endif

namespace tril {
namespace {

TEST(Allocation, NoneInAStep) {
  if (!TRIL_COUNT_ALLOCATIONS) GTEST_SKIP() << "a sanitizer has its own operator new";
  TrainOptions o = testing::small_options();
  o.dropout = 0.1f;
  o.accumulate = 2;
  const Corpus corpus = testing::small_corpus();
  ThreadPool pool(2);
  Trainer trainer(testing::small_config(o), o, corpus, pool);
  trainer.step();
  trainer.evaluate();
  const int64_t before = allocations;
  double loss = 0;
  for (int i = 0; i < 3; ++i) loss += trainer.step().loss;
  loss += trainer.evaluate().loss_nats;
  EXPECT_EQ(allocations - before, 0);
  EXPECT_GT(loss, 0);
  EXPECT_GT(before, 0);
}

}  // namespace
}  // namespace tril
