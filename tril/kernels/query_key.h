// What happens to queries and keys between their projection and attention: each head is RMS-normalised
// (QK-norm, Henry et al. 2020, with RMS as in Dehghani et al. 2023), then its pairs turn by position
// (kernels/rope.h).
//
//   y = R (x / sqrt(avg(x^2) + epsilon) * weight)
#pragma once

#include "tril/base/parallel.h"

namespace tril {

struct QueryKey {
  int64_t rows = 0;  // N = B * T
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  // QK-norm: weights of all query heads and of all key heads (D), or null.
  const float* query_weight = nullptr;
  const float* key_weight = nullptr;
  float epsilon = 1e-5f;
  // RoPE: (rotation_rows, rope_size) of rope_rotation, or null; row n turns by row n mod rotation_rows.
  const float* rotation = nullptr;
  int64_t rotation_rows = 0;
  int64_t rope_size = 0;
  bool interleaved = false;
};

// qk (N, (H + K) D) from the queries and keys of qkv (N, (H + 2K) D).
void query_key_forward(Executor& executor, const QueryKey& options, const float* qkv, float* qk);

int64_t query_key_backward_workspace(const QueryKey& options);  // floats

// dqkv (N, (H + 2K) D): the gradient of y in its queries and keys becomes that of x. With QK-norm
// dquery_weight and dkey_weight (D) are added to.
void query_key_backward(Executor& executor, const QueryKey& options, const float* qkv, float* dqkv,
                        float* dquery_weight, float* dkey_weight, float* workspace);

}  // namespace tril
