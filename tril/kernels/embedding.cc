#include "tril/kernels/embedding.h"

#include "tril/kernels/chunks.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tril/kernels/embedding.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tril/kernels/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::HWY_NAMESPACE {
namespace {

// y = a + b
void embedding_sum(size_t count, const float* a, const float* b, float* y) {
  for_each_vector(count, [&](size_t c, auto access) HWY_ATTR {
    access.store(hn::Add(access.load(a + c), access.load(b + c)), y + c);
  });
}

// table[index_n * stride ...] += dy[n * stride ...] for `count` columns, n in order.
void scatter_add(size_t rows, size_t stride, size_t count, const int32_t* indices, const float* dy,
                 float* table) {
  for (size_t n = 0; n < rows; ++n) {
    const float* source = dy + n * stride;
    float* out = table + static_cast<size_t>(indices[n]) * stride;
    for_each_vector(count, [&](size_t c, auto access) HWY_ATTR {
      access.store(hn::Add(access.load(out + c), access.load(source + c)), out + c);
    });
  }
}

// out += the rows of dy `stride` apart, in order.
void add_strided(size_t rows, size_t stride, size_t count, const float* dy, float* out) {
  for_each_vector(count, [&](size_t c, auto access) HWY_ATTR {
    FloatVector sum = access.load(out + c);
    for (size_t k = 0; k < rows; ++k) sum = hn::Add(sum, access.load(dy + k * stride + c));
    access.store(sum, out + c);
  });
}

}  // namespace
}  // namespace tril::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tril {

HWY_EXPORT(embedding_sum);
HWY_EXPORT(scatter_add);
HWY_EXPORT(add_strided);

namespace {

// Null indices: table row r gets the rows r, r + time, ... of dy, so the table's rows are independent.
void repeated_backward(Executor& executor, int64_t rows, int64_t time, int64_t channels, const float* dy,
                       float* dtable) {
  const int64_t repeats = divide_up(rows, std::max<int64_t>(time, 1));
  const int64_t grain = rows_per_chunk(repeats * channels);
  parallel_for(executor, std::min(rows, time), grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      HWY_DYNAMIC_DISPATCH(add_strided)
      (static_cast<size_t>(divide_up(rows - r, time)), static_cast<size_t>(time * channels),
       static_cast<size_t>(channels), dy + r * channels, dtable + r * channels);
    }
  });
}

}  // namespace

void embedding_forward(Executor& executor, int64_t rows, int64_t time, int64_t channels,
                       const int32_t* tokens, const int32_t* positions, const StoredRows& token_table,
                       const float* position_table, float* y) {
  parallel_for(executor, rows, rows_per_chunk(channels), [&](int64_t begin, int64_t end, int) {
    for (int64_t n = begin; n < end; ++n) {
      float* out = y + n * channels;
      widen_row(token_table.dtype, channels, token_table.at(tokens[n], 0), out);
      if (position_table == nullptr) continue;
      const int64_t position = positions != nullptr ? positions[n] : n % time;
      HWY_DYNAMIC_DISPATCH(embedding_sum)
      (static_cast<size_t>(channels), out, position_table + position * channels, out);
    }
  });
}

void embedding_backward(Executor& executor, int64_t rows, int64_t time, int64_t channels,
                        const int32_t* indices, const float* dy, float* dtable) {
  if (indices == nullptr) {
    repeated_backward(executor, rows, time, channels, dy, dtable);
    return;
  }
  parallel_for(executor, channels, columns_per_chunk(rows, channels), [&](int64_t begin, int64_t end, int) {
    HWY_DYNAMIC_DISPATCH(scatter_add)
    (static_cast<size_t>(rows), static_cast<size_t>(channels), static_cast<size_t>(end - begin), indices,
     dy + begin, dtable + begin);
  });
}

}  // namespace tril
#endif  // HWY_ONCE
