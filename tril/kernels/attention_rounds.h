// How backward is shared among threads where there are fewer key/value heads than those.
//
// Keys and queries of a head are cut into R blocks. A round visits pairs (block of keys, block of queries) of
// which no two share a block of keys, whose dkey and dvalue a pair adds to, nor one of queries, with dquery.
// So the pairs of a round run at once without partial sums, and the sums grow in the order of the rounds:
// bits depend on the shape and the mask, never on threads.
#pragma once

#include "tril/kernels/attention_plan.h"

namespace tril::attention {

// With so many heads (batch * kv_heads) each is one chunk, from beginning to end.
constexpr int64_t kManyHeads = 8;
// A pair reads the tiles of both its blocks anew: with fewer tiles a block there is more traffic for each
// product, with more tiles there are fewer pairs to share.
constexpr int64_t kRoundBlock = 4;
constexpr int64_t kMinBlocks = 4, kMaxBlocks = 16;
constexpr int64_t kRoundTiles = 2 * kMinBlocks;  // shorter heads are one chunk

// Tiles [first, last).
struct TileRange {
  int64_t first, last;
};

struct Pair {
  int64_t keys, queries;
};

struct Rounds {
  explicit Rounds(const Problem& problem);

  int64_t blocks;  // R, even; 1: no rounds
  int64_t heads, key_tiles, query_tiles;
  // Only pairs near the diagonal see each other: they should meet in the same round. Otherwise each round has
  // equally many pairs that do.
  bool near;

  int64_t pairs(int64_t round) const { return near || round == 0 ? blocks : blocks / 2; }
  // Unless near, a pair of two different blocks stands for two: {keys, queries} and {queries, keys}.
  Pair pair(int64_t round, int64_t index) const;
  TileRange keys(int64_t block) const { return cut(key_tiles, block); }
  TileRange queries(int64_t block) const { return cut(query_tiles, block); }

 private:
  TileRange cut(int64_t tiles, int64_t block) const {
    return {tiles * block / blocks, tiles * (block + 1) / blocks};
  }
};

// Backward's workspace: an area for each head at hand, then one for each worker. Without rounds a worker has
// one head at hand, and with rounds all are.
struct BackwardSpace {
  BackwardSpace(const Problem& problem, int threads);
  int64_t head, heads, worker, workers;  // floats and number of both
  int64_t size() const;
  float* of_head(float* workspace, int64_t index) const { return workspace + index * head; }
  float* of_worker(float* workspace, int64_t index) const {
    return workspace + heads * head + index * worker;
  }
};

// What a chunk of a round does. The queries of the heads that share a key/value head come one after another.
struct BackwardStep {
  enum Kind { kPackKeys, kPackQueries, kVisit, kUnpackQueries, kUnpackKeys } kind;
  int64_t member;  // of the query heads that share a key/value head
  int64_t round;
};

// Calls run(step, chunks of a head) for all steps in order.
template <class Run>
void for_each_step(const Rounds& rounds, int64_t group, Run&& run) {
  run({BackwardStep::kPackKeys, 0, 0}, rounds.key_tiles);
  for (int64_t member = 0; member < group; ++member) {
    run({BackwardStep::kPackQueries, member, 0}, rounds.query_tiles);
    for (int64_t round = 0; round < rounds.blocks; ++round)
      run({BackwardStep::kVisit, member, round}, rounds.pairs(round));
    run({BackwardStep::kUnpackQueries, member, 0}, rounds.query_tiles);
  }
  run({BackwardStep::kUnpackKeys, 0, 0}, rounds.key_tiles);
}

}  // namespace tril::attention
