// How the memory-bound kernels cut their work: by shape alone.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tril/base/sizes.h"

namespace tril {

// Elements in a chunk: 64 KB of floats, so that a chunk's arrays stay in a core's cache and a chunk costs far
// more than handing it out.
inline constexpr int64_t kChunkElements = 16384;
// Elements in a chunk of rows, of which each takes some arithmetic.
inline constexpr int64_t kRowElements = 4096;
// Floats in a cache line: chunks of columns are a multiple, so that threads do not share lines.
inline constexpr int64_t kLineFloats = 16;

// Rows in a chunk whose rows do not depend on each other.
constexpr int64_t rows_per_chunk(int64_t columns) {
  return std::max<int64_t>(1, kRowElements / std::max<int64_t>(1, columns));
}

// Rows in a chunk that keeps a partial sum of (C): at least 16, so that adding up the partial sums is cheap;
// at most 128 chunks, so that they stay small.
constexpr int64_t summed_rows_per_chunk(int64_t rows, int64_t channels) {
  return std::max({int64_t{16}, rows_per_chunk(channels), divide_up(rows, 128)});
}
constexpr int64_t summed_chunks(int64_t rows, int64_t channels) {
  return divide_up(rows, summed_rows_per_chunk(rows, channels));
}

// Columns in a chunk that adds up partial sums.
inline constexpr int64_t kSummedColumns = 256;

// Columns in a chunk when work of `rows` x `columns` elements is cut by columns.
constexpr int64_t columns_per_chunk(int64_t rows, int64_t columns) {
  const int64_t by_work = divide_up(kChunkElements, std::max<int64_t>(1, rows));
  return round_up(std::max(by_work, divide_up(columns, 16)), kLineFloats);
}

}  // namespace tril
