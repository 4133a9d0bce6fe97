// What attention's loops of every instruction set agree on: the arguments of a call, the size of a tile, who
// sees whom in it, and how the workspace is cut.
#pragma once

#include <algorithm>
#include <cstdint>
#include <variant>

#include "tril/base/sizes.h"
#include "tril/kernels/attention.h"

namespace tril::attention {

constexpr int64_t kTile = 64;        // queries and keys of a tile
constexpr int64_t kTileStride = 80;  // floats from one row of a tile to the next: see Packing
constexpr int64_t kStrip = 16;       // the staircase that covers a diagonal tile has steps of this size
constexpr int64_t kShort = 16;       // queries and keys of a short head at most: attention_short-inl.h
constexpr int64_t kPad = 16;         // floats of the widest vector: packed rows are padded to a multiple
// Tiles that a loop keeps in the second cache while the other side streams past: query tiles (of all heads
// that share a key/value head) in forward, key tiles in backward.
constexpr int64_t kForwardBlock = 8;
constexpr int64_t kBackwardBlock = 4;

// Rows of one head as packed for the products. The stride is an odd number of cache lines: with an even one
// the rows of a tile would share a fraction of the sets of the first cache.
struct Packing {
  explicit Packing(int64_t size)
      : head_size(size), width(round_up(size, kPad)), stride((width / kPad | 1) * kPad) {}
  int64_t head_size;
  int64_t width;  // head_size and zeros
  int64_t stride;
};

// Of batch * kv_heads.
struct HeadsOfChunk {
  int64_t first, last;
};

struct Problem {
  AttentionShape shape;
  AttentionOptions options;
  float scale;

  Problem(const AttentionShape& s, const AttentionOptions& o);
  int64_t group() const { return shape.query_heads / shape.kv_heads; }
  Packing packing() const { return Packing(shape.head_size); }
  int64_t query_tiles() const { return divide_up(shape.query_length, kTile); }
  int64_t key_tiles() const { return divide_up(shape.key_length, kTile); }
  // Query tiles of a chunk of forward, and how many chunks that makes of one key/value head. Fewer tiles
  // where there would be too few chunks to share among threads.
  int64_t block() const;
  int64_t query_blocks() const { return divide_up(query_tiles(), block()); }
  // Short heads make chunks of several, which ask for the rows of the next while they compute.
  int64_t chunk_heads() const;
  // Is it worth asking for rows ahead? Not of what lies in the second cache anyway: 128 heads of 16 x 4 took
  // 1.4 times as long with it.
  bool asks_ahead() const;
  int64_t head_chunks() const { return divide_up(shape.batch * shape.kv_heads, chunk_heads()); }
  HeadsOfChunk heads_of_chunk(int64_t chunk) const {
    return {chunk * chunk_heads(), std::min(shape.batch * shape.kv_heads, (chunk + 1) * chunk_heads())};
  }
  // Keys that the queries before `query_end` may see: [0, key_end).
  int64_t key_end(int64_t batch, int64_t query_end) const;
  // 0: none. Longer than any row, it need not be longer still.
  int64_t window() const { return std::min<int64_t>(options.window, int64_t{1} << 33); }
  int64_t prefix(int64_t batch) const { return options.prefix ? options.prefix[batch] : 0; }
  // Keys of this row of the batch, the position of its query 0, and how many of its first queries are
  // padding.
  int64_t keys(int64_t batch) const { return options.lengths ? options.lengths[batch] : shape.key_length; }
  int64_t offset(int64_t batch) const {
    return options.lengths ? options.lengths[batch] - shape.query_length : options.query_offset;
  }
  int64_t padding(int64_t batch) const { return options.lengths ? std::max<int64_t>(0, -offset(batch)) : 0; }
  // Are heads so short and narrow, and attention so plain, that registers hold them?
  bool is_short() const;
  // Are scores changed between the product and the softmax?
  bool reshapes_scores() const { return options.softcap > 0 || options.alibi_slopes != nullptr; }
};

// Keys or values as they are stored; packing makes floats of them.
using StoredRows = std::variant<ConstHeadView, HeadRows<const Bfloat16>>;

struct ForwardCall : Problem {
  ConstHeadView query;
  StoredRows key, value;
  HeadView out;
  float* running_max;
  float* running_sum;
};

struct WeightsCall : Problem {
  ConstHeadView query, key;
  const float* running_max;
  const float* running_sum;
};

struct BackwardCall : Problem {
  ConstHeadView query, key, value, out;
  const float* running_max;
  const float* running_sum;
  ConstHeadView dout;
  HeadView dquery, dkey, dvalue;
  float* dsinks;
};

enum class Sight { kNone, kPart, kAll };

// Which of the keys [key, key + keys) the queries [query, query + queries) see. Rows are relative to the
// tile.
struct Tile {
  int64_t query, queries;
  int64_t key, keys;
  Sight sight;
  int64_t position;  // of query row 0 among the keys of the tile: may be negative
  // Row q sees row k if k <= q + last and k > q + before, or if k < prefix.
  int64_t last;    // kTile where causality hides nothing
  int64_t before;  // -kTile - 1 where no window hides anything
  int64_t prefix;
  bool by_document;
  int32_t query_documents[kTile];
  const int32_t* key_documents;

  bool visible(int64_t q, int64_t k) const {
    const bool seen = (k <= q + last && k > q + before) || k < prefix;
    return seen && (!by_document || (query_documents[q] == key_documents[k] && key_documents[k] >= 0));
  }
  // Outside the staircases over k <= q + diagonal and k > q + far_edge nothing is computed. A prefix reaches
  // beyond them: then all is.
  int64_t diagonal() const { return prefix > 0 ? kTile : last; }
  int64_t far_edge() const { return prefix > 0 ? -kTile - 1 : before; }
  // Rows of a strip: the whole tile unless one of these lines crosses it.
  int64_t strip() const { return diagonal() >= keys - 1 && queries - 1 + far_edge() < 0 ? kTile : kStrip; }
  // The queries that see any of the keys from row k on, or before row k_end: their first, and one past their
  // last, rounded to vectors.
  int64_t first_query(int64_t k) const { return std::max<int64_t>(0, k - diagonal()) / kStrip * kStrip; }
  int64_t end_query(int64_t k_end) const {
    return round_up(std::clamp<int64_t>(k_end - 1 - far_edge(), 0, kTile), kStrip);
  }
  // The first key that any of the queries from row q on sees; one past the last of those before row q_end.
  int64_t first_key(int64_t q) const { return std::clamp<int64_t>(q + far_edge() + 1, 0, keys); }
  int64_t last_key(int64_t q_end) const { return std::clamp<int64_t>(q_end + diagonal(), 0, keys); }
};

Tile look(const Problem& problem, int64_t batch, int64_t query_tile, int64_t key_tile);

// The first address from `workspace` on at a cache line: callers need not align.
inline float* aligned(float* workspace) {
  constexpr uintptr_t kLine = kPad * sizeof(float);
  return reinterpret_cast<float*>(
      round_up(static_cast<int64_t>(reinterpret_cast<uintptr_t>(workspace)), kLine));
}

// Hands out offsets into a workspace, each at a cache line.
struct Cursor {
  int64_t used = 0;
  int64_t take(int64_t a, int64_t b = 1) {
    const int64_t start = used;
    used = checked_add(used, round_up(checked_multiply(a, b), kPad));
    return start;
  }
};

// Offsets, in floats, into one worker's part of the workspace.
struct ForwardLayout {
  explicit ForwardLayout(const Problem& problem);
  int64_t keys, values;  // (kTile, stride)
  int64_t rows;          // (kTile, stride): queries before transposing
  int64_t scores;        // (kTile, kTileStride), [key][query]
  int64_t decay;         // (kTile)
  // One slot for each query tile of a chunk and each head of its group.
  int64_t queries;       // (slots, width, kTileStride)
  int64_t output;        // (slots, kTile, stride)
  int64_t maximum, sum;  // (slots, kTile)
  int64_t size;
};

// Of one key/value head and, one after another, the query heads that share it.
struct BackwardLayout {
  explicit BackwardLayout(const Problem& problem);
  int64_t keys, values, dkeys, dvalues;  // (Tk, stride)
  int64_t queries, douts, dqueries;      // (Tq rounded up to tiles, stride)
  int64_t queries_across, douts_across;  // (query tiles, width, kTileStride)
  int64_t keys_poison;                   // (key tiles)
  int64_t queries_poison, douts_poison;  // (query tiles)
  int64_t maximum, inverse_sum, delta;   // (Tq rounded up to tiles)
  int64_t size;
};

// Of one worker.
struct BackwardTiles {
  explicit BackwardTiles(const Packing& packing);
  int64_t outs, outs_across;       // (kTile, stride), (width, kTileStride)
  int64_t weights, dscores, keep;  // (kTile, kTileStride), [key][query]
  int64_t slopes;                  // the same: 1 - tanh^2 of the softcap
  int64_t size;
};

}  // namespace tril::attention
