// Token and position embeddings.
#pragma once

#include "tril/base/parallel.h"
#include "tril/kernels/stored_rows.h"

namespace tril {

// y_n = token_table[token_n] + position_table[position_n]. position_table may be null. positions may be null:
// n mod time.
void embedding_forward(Executor& executor, int64_t rows, int64_t time, int64_t channels,
                       const int32_t* tokens,          // (N)
                       const int32_t* positions,       // (N), or null
                       const StoredRows& token_table,  // (V, C)
                       const float* position_table,    // (T_max, C), or null
                       float* y);                      // (N, C)

// dtable_r += sum of dy_n over the rows n with index_n == r, in increasing n. Parallel over columns, so the
// order of the sum is fixed. With null indices: n mod time.
void embedding_backward(Executor& executor, int64_t rows, int64_t time, int64_t channels,
                        const int32_t* indices,  // (N), or null
                        const float* dy,         // (N, C)
                        float* dtable);          // (V or T_max, C)

}  // namespace tril
