#include "tril/tensor/arena.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <vector>

#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::expect_error;

// A layout as layers make one: lasting views, and temporaries inside scopes.
std::vector<View> plan(Arena& arena) {
  std::vector<View> views;
  views.push_back(arena.allocate({3, 5}));
  {
    const Arena::Scope scope(arena);
    views.push_back(arena.allocate({1000}));
    const Arena::Scope inner(arena);
    views.push_back(arena.allocate({7}, DType::kU8));
  }
  {
    const Arena::Scope scope(arena);
    views.push_back(arena.allocate({10}));
  }
  views.push_back(arena.allocate({2, 2}, DType::kI64));
  return views;
}

TEST(Arena, DryAndRealAgree) {
  Arena dry = Arena::dry();
  const std::vector<View> counted = plan(dry);
  EXPECT_TRUE(dry.is_dry());
  EXPECT_EQ(dry.used(), 64 + 64);
  EXPECT_EQ(dry.peak(), 64 + 4032 + 64);  // 4000 bytes round up to 4032
  Arena arena(dry.peak());
  const std::vector<View> real = plan(arena);
  EXPECT_FALSE(arena.is_dry());
  EXPECT_EQ(arena.used(), dry.used());
  EXPECT_EQ(arena.peak(), dry.peak());
  EXPECT_EQ(arena.capacity(), dry.peak());
  ASSERT_EQ(real.size(), counted.size());
  for (size_t i = 0; i < real.size(); ++i) {
    EXPECT_EQ(real[i].shape, counted[i].shape);
    EXPECT_EQ(real[i].dtype, counted[i].dtype);
    EXPECT_EQ(real[i].strides, counted[i].strides);
    // The same places, counted from the first view.
    EXPECT_EQ(real[i].data - real[0].data,
              static_cast<ptrdiff_t>(reinterpret_cast<uintptr_t>(counted[i].data) -
                                     reinterpret_cast<uintptr_t>(counted[0].data)));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(real[i].data) % 64, 0u);
    EXPECT_TRUE(counted[i]) << "a dry view answers that it is there";
  }
}

TEST(Arena, ExactlyItsPeakIsEnough) {
  Arena dry = Arena::dry();
  plan(dry);
  Arena short_of_it(dry.peak() - 1);
  expect_error(ErrorKind::kUse, {"arena: 7 bytes asked for with 4096 of 4159 in use"},
               [&] { plan(short_of_it); });
}

TEST(Arena, ScopesGiveBackAndPeakRemembers) {
  Arena arena(1024);
  float* const kept = arena.allocate_f32(16);
  float* first = nullptr;
  {
    const Arena::Scope scope(arena);
    first = arena.allocate_f32(100);
    EXPECT_EQ(arena.used(), 64 + 448);
  }
  EXPECT_EQ(arena.used(), 64);
  EXPECT_EQ(arena.peak(), 64 + 448);
  EXPECT_EQ(arena.allocate_f32(10), first);
  EXPECT_EQ(first, kept + 16);
  EXPECT_EQ(arena.peak(), 64 + 448);
}

TEST(Arena, ScopeEndsAlsoWhenTheArenaIsFull) {
  Arena arena(256);
  EXPECT_THROW(
      {
        const Arena::Scope scope(arena);
        arena.allocate_f32(32);
        arena.allocate_f32(64);
      },
      Error);
  EXPECT_EQ(arena.used(), 0);
  EXPECT_NE(arena.allocate_f32(64), nullptr);
}

TEST(Arena, ViewsDoNotOverlapAndStartZeroed) {
  Arena arena(64 * 20);
  std::set<const std::byte*> starts;
  for (int64_t n = 0; n < 10; ++n) {
    const View view = arena.allocate({n});
    starts.insert(view.data);
    for (int64_t i = 0; i < n; ++i) {
      EXPECT_EQ(view.f32()[i], 0.0f);
      view.f32()[i] = 1;
    }
  }
  EXPECT_EQ(starts.size(), 9u);  // nothing was asked for once: it shares its place with the next
}

TEST(Arena, MovesKeepTheirViews) {
  Arena a(128);
  const View view = a.allocate({4});
  Arena b = std::move(a);
  view.f32()[0] = 3;
  EXPECT_EQ(b.used(), 64);
  EXPECT_EQ(b.allocate({4}).data, view.data + 64);
}

TEST(Arena, ImpossibleSizesThrowDryToo) {
  Arena dry = Arena::dry();
  expect_error(ErrorKind::kUse, {"size overflow"}, [&] { dry.allocate({int64_t{1} << 62}); });
  dry.allocate({int64_t{1} << 60});
  expect_error(ErrorKind::kUse, {"size overflow"}, [&] { dry.allocate({int64_t{1} << 60}); });
}

}  // namespace
}  // namespace tril
