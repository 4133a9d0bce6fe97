// Few heads and long rows: backward in rounds. The schedule itself, its bits, and its results.
#include "tril/kernels/attention_rounds.h"

#include <set>

#include "tests/kernels/attention_case.h"

namespace tril {
namespace {

using attention::Pair;
using attention::Problem;
using attention::Rounds;
using attention::TileRange;
using testing::AttentionCase;
using testing::AttentionResult;
using testing::self;

// Every pair of a block of keys and one of queries is visited once, and no two of a round share a block.
TEST(AttentionRounds, VisitEveryPairOnce) {
  for (const int64_t window : {0, 100}) {
    for (const int64_t T : {64, 500, 512, 700, 1024, 1700, 4096, 100000}) {
      const Rounds rounds(Problem(self(1, 1, T, 8), {.window = window}));
      if (rounds.blocks == 1) continue;
      SCOPED_TRACE(fmt::format("T {} window {}: {} blocks", T, window, rounds.blocks));
      std::set<std::pair<int64_t, int64_t>> visited;
      for (int64_t round = 0; round < rounds.blocks; ++round) {
        std::set<int64_t> keys, queries;
        const auto visit = [&](int64_t k, int64_t q) {
          EXPECT_TRUE(keys.insert(k).second && queries.insert(q).second) << "round " << round;
          EXPECT_TRUE(visited.insert({k, q}).second);
        };
        for (int64_t index = 0; index < rounds.pairs(round); ++index) {
          const Pair pair = rounds.pair(round, index);
          visit(pair.keys, pair.queries);
          if (!rounds.near && round > 0) visit(pair.queries, pair.keys);
        }
      }
      EXPECT_EQ(static_cast<int64_t>(visited.size()), rounds.blocks * rounds.blocks);
      for (int64_t block = 0, tile = 0; block < rounds.blocks; ++block) {
        const TileRange keys = rounds.keys(block);
        EXPECT_EQ(keys.first, tile);
        EXPECT_GT(keys.last, keys.first);
        tile = keys.last;
      }
      EXPECT_EQ(rounds.keys(rounds.blocks - 1).last, rounds.key_tiles);
    }
  }
  EXPECT_EQ(Rounds(Problem(self(1, 1, 448, 8), {})).blocks, 1);
  EXPECT_EQ(Rounds(Problem(self(1, 1, 1024, 8), {})).blocks, 4);
  EXPECT_EQ(Rounds(Problem(self(2, 4, 4096, 8), {})).blocks, 1);
}

std::vector<AttentionCase> cases(int64_t T) {
  std::vector<AttentionCase> all;
  const auto add = [&](const AttentionShape& s, const AttentionOptions& o) -> AttentionCase& {
    return all.emplace_back(s, o);
  };
  add(self(1, 1, T, 8), {});
  add(self(1, 1, T, 8), {.causal = false});
  add(self(1, 1, T, 8), {.window = T / 3});
  add(self(1, 1, T, 8), {.softcap = 2, .dropout = 0.2f, .dropout_key = 4});
  add({1, 1, 1, T, T + 130, 8}, {.query_offset = 130}).set_prefix({200});
  add({2, 4, 2, T, T, 8}, {.dropout = 0.1f, .dropout_key = 5}).set_sinks({0.5f, -1, 0, 2});
  std::vector<int32_t> ids(static_cast<size_t>(T));
  for (int64_t t = 0; t < T; ++t) ids[t] = t < 20 ? -1 : static_cast<int32_t>(t / 150);
  add({1, 2, 1, T, T, 8}, {}).set_documents(ids);
  AttentionCase& mixed = add({1, 3, 1, T, T, 8}, {.window = 90});
  mixed.set_prefix({70});
  mixed.set_alibi_slopes({0.1f, 0.02f, 0});
  mixed.set_sinks({0, 1, -1});
  return all;
}

TEST(AttentionRounds, SameBitsForAnyNumberOfThreads) {
  for (const int64_t T : {512, 700, 1100}) {
    for (const AttentionCase& c : cases(T)) {
      ASSERT_GT(Rounds(Problem(c.shape, c.options)).blocks, 1);
      const AttentionResult first = c.run();
      for (int threads = 1; threads <= 4; ++threads) {
        SCOPED_TRACE(fmt::format("{} threads, {}", threads, c.name()));
        ThreadPool pool(threads);
        testing::expect_same_result(c.run(pool), first);
      }
    }
  }
}

TEST(AttentionRounds, EqualTheReference) {
  for (const AttentionCase& c : cases(530)) {
    testing::expect_attention(c, 0.5 * std::sqrt(8.0));
    if (::testing::Test::HasFatalFailure()) return;
  }
}

// Rounds keep all heads at hand, packed, and a few tiles for each worker.
TEST(AttentionRounds, WorkspaceDoesNotGrowWithThreads) {
  const auto floats = [](int64_t T, int threads) {
    return attention_workspace({1, 4, 2, T, T, 64}, threads);
  };
  for (const int64_t T : {512, 1000, 100000}) {
    EXPECT_LE(floats(T, 1), 2 * (9 * 80 + 3 + 1) * round_up(T, 64) + 130000) << T;
    EXPECT_LE(floats(T, 5) - floats(T, 1), 4 * 40000) << T;
  }
}

}  // namespace
}  // namespace tril
