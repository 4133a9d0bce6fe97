#include "tril/kernels/attention_rounds.h"

namespace tril::attention {
namespace {

int64_t blocks_of(const Problem& p) {
  const int64_t tiles = std::min(p.key_tiles(), p.query_tiles());
  if (p.shape.batch * p.shape.kv_heads >= kManyHeads || tiles < kRoundTiles) return 1;
  return std::clamp<int64_t>(tiles / kRoundBlock / 2 * 2, kMinBlocks, kMaxBlocks);
}

}  // namespace

Rounds::Rounds(const Problem& p)
    : blocks(blocks_of(p)),
      heads(p.shape.batch * p.shape.kv_heads),
      key_tiles(p.key_tiles()),
      query_tiles(p.query_tiles()),
      near(p.options.window > 0 || p.options.documents != nullptr) {}

Pair Rounds::pair(int64_t round, int64_t index) const {
  if (round == 0) return {index, index};
  if (near) return {index, (index + round) % blocks};
  // Each block meets each other once: a + b = 2 round modulo R - 1, and the last one meets a = b.
  const int64_t circle = blocks - 1, a = (round + index) % circle, b = (round - index + circle) % circle;
  return index == 0 ? Pair{a, circle} : Pair{std::min(a, b), std::max(a, b)};
}

BackwardSpace::BackwardSpace(const Problem& p, int threads)
    : head(BackwardLayout(p).size),
      heads(threads),
      worker(BackwardTiles(p.packing()).size),
      workers(threads) {
  const Rounds rounds(p);
  if (rounds.blocks > 1) heads = rounds.heads;
}

int64_t BackwardSpace::size() const {
  return checked_add(checked_multiply(head, heads), checked_multiply(worker, workers));
}

}  // namespace tril::attention
