// How a forward with few queries is cut: the keys that a row of the batch sees in blocks, the blocks in
// ranges. A range is a chunk of work; its results (m, l, o) wait in the workspace until all are there.
#pragma once

#include "tril/kernels/attention_plan.h"

namespace tril::attention {

// The longest query_length that is decoded. One head of 64, one thread, AVX-512, ns a key: 16, 17, 23, 19 for
// 1 to 4 queries, where tiles take 43 for any number up to 8; the two meet at 7.
constexpr int64_t kDecodeQueries = 4;
// Keys of a block: K and V of it, 64 floats each, are half of a first cache.
constexpr int64_t kDecodeKeys = 32;
constexpr int64_t kDecodeRange = 8;  // blocks of a range
constexpr int64_t kDecodeAhead = 2;  // blocks between the one computed with and the one asked for

// Does the decode loop run this forward? Not where queries and keys are the same tokens (training): backward
// recomputes the tile loop's scores to the last bit.
inline bool decodes(const AttentionShape& s, const AttentionOptions& o) {
  return s.query_length <= kDecodeQueries && s.query_length < s.key_length && o.dropout == 0;
}

// The blocks of keys that some query of a row of the batch sees: [0, prefix), then [first, end).
struct VisibleBlocks {
  VisibleBlocks(const Problem& problem, int64_t batch);
  int64_t count() const { return prefix + end - first; }
  int64_t block(int64_t i) const { return i < prefix ? i : first + i - prefix; }
  // The cut depends on what the row sees and on nothing else, so that its bits are the same in any batch.
  int64_t ranges() const { return std::max<int64_t>(1, divide_up(count(), kDecodeRange)); }

  int64_t prefix, first, end;
  int64_t key_end;  // keys from here on are not read
};

// Chunks are numbered by row of the batch, key/value head, range.
struct DecodeChunk {
  int64_t batch, kv_head, range;
};

// Offsets, in floats, into the workspace. R = query_length * group rows share a key/value head.
struct DecodeLayout {
  DecodeLayout(const Problem& problem, int threads);
  int64_t starts;        // (B + 1) int64: ranges of the rows of the batch before this one
  int64_t maximum, sum;  // (chunks, statistics): R numbers on cache lines of their own
  int64_t output;        // (chunks, R, stride)
  int64_t rows, statistics;
  // One worker's part.
  int64_t workers, worker_size;
  int64_t queries;  // (R, stride), times the scale
  int64_t keys;     // (kDecodeKeys, stride), of values too
  int64_t scores;   // (R, kDecodeKeys)
  int64_t decay;    // (R)
  int64_t size;
};

// The chunks of all rows; fills `starts` as DecodeLayout describes unless it is null.
int64_t decode_chunks(const Problem& problem, int64_t* starts);
// Which one `chunk` is.
DecodeChunk find_chunk(const Problem& problem, const int64_t* starts, int64_t chunk);

}  // namespace tril::attention
