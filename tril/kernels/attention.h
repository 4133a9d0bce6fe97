// Scaled dot-product attention, fused, forward and backward; exact, O(T) memory.
//
// Vaswani et al., "Attention is all you need" (2017), section 3.2.1; tiles with a running maximum and sum:
// Milakov & Gimelshein (2018), Rabe & Staats (2021), Dao et al. "FlashAttention" (2022), sections 3.1-3.2.
// docs/attention.md derives every step with the names used here.
//
//   s_ij = scale * q_i . k_j        for the keys j that query i may see
//   s_ij <- c tanh(s_ij / c)                             with softcap c
//   s_ij <- s_ij - slope_h |i + query_offset - j|        with ALiBi
//   p_ij = exp(s_ij - m_i) / l_i    m_i = max_j s_ij,  l_i = sum_j exp(s_ij - m_i); a sink is one more j
//   o_i  = sum_j p_ij v_j
//
// Forward keeps m and l apart (their sum m + log l would lose the low bits of l when |m| is large); backward
// recomputes p from them, so nothing of size (T, T) ever exists.
//
// On x86 numbers below 2^-126 count as 0 inside these functions; the caller's floating-point mode comes back.
//
// Needs neither oneDNN nor any training code: CMake target tril::attention.
#pragma once

#include "tril/base/parallel.h"
#include "tril/kernels/bfloat16.h"

namespace tril {

// Rows of a (batch, time, head, head_size) array; the last dimension is contiguous. Strides in elements. A
// row of a fused q|k|v buffer is {qkv + offset, T * 3 * H * D, 3 * H * D, D}.
template <class Float>
struct HeadRows {
  Float* data = nullptr;
  int64_t batch_stride = 0;
  int64_t time_stride = 0;
  int64_t head_stride = 0;
  Float* row(int64_t b, int64_t t, int64_t h) const {
    return data + b * batch_stride + t * time_stride + h * head_stride;
  }
};
using HeadView = HeadRows<float>;
using ConstHeadView = HeadRows<const float>;

struct AttentionShape {
  int64_t batch = 0;         // B
  int64_t query_heads = 0;   // H
  int64_t kv_heads = 0;      // K: divides H; query head h reads key/value head h / (H / K)
  int64_t query_length = 0;  // Tq
  int64_t key_length = 0;    // Tk
  int64_t head_size = 0;     // D
};

struct AttentionOptions {
  float scale = 0;  // 0: 1 / sqrt(head_size). Never 1 / sqrt(model width)
  bool causal = true;
  // Query i stands at position i + query_offset among the keys: with causal it sees keys j <= i +
  // query_offset. 0 for training; Tk - Tq when the queries are the last of the keys (a key/value cache).
  int64_t query_offset = 0;
  // (B) or null, a cache whose sequences have different lengths: row b has the keys before lengths[b], in [0,
  // Tk], and query i stands at position lengths[b] - Tq + i; query_offset must be 0. Keys from lengths[b] on
  // are not read. A query at a position below 0 is padding and sees nothing. Forward only.
  const int32_t* lengths = nullptr;
  // Sliding window: of those keys the last `window`, the one at the query's own position included; 0: all.
  // Needs causal.
  int64_t window = 0;
  // (B) or null, prefix language model: the first prefix[b] keys are seen by every query, whatever causal and
  // window say.
  const int32_t* prefix = nullptr;
  // (B, Tk) document ids with query i's own at its position, or null: a query sees only keys of its own
  // document. A negative id is padding: it sees nothing and nobody sees it.
  const int32_t* documents = nullptr;
  // 0, or c > 0: scores are kept within (-c, c) by c tanh(s / c). Gemma 2 (2024), section 2.
  float softcap = 0;
  // (H) or null, ALiBi: scores fall by alibi_slopes[h] for each position between query and key. Press, Smith,
  // Lewis (2021), section 3.
  const float* alibi_slopes = nullptr;
  // (H) or null, attention sinks: one more score for each row of head h, whose weight goes to no value. The
  // weights of a row then sum to less than 1. Finite, or minus infinity for none.
  const float* sinks = nullptr;
  // Dropout of the weights p_ij with probability `dropout` in [0, 1), survivors scaled by 1 / (1 - dropout).
  // The draw for (b, h, i, j) is word (j & 3) of the Philox block with key `dropout_key` and counter
  // {j >> 2, i, b * H + h, dropout_substream}; dropped if word < dropout * 2^32. So the mask does not depend
  // on tiles or threads.
  float dropout = 0;
  uint64_t dropout_key = 0;
  uint32_t dropout_substream = 0;
};

// Throws kUse for impossible sizes or options, with their names and values.
void check_attention(const AttentionShape& shape, const AttentionOptions& options);

// Floats of workspace for forward or backward with `threads` workers. O(threads * (tile + T * D)); where
// there are few heads of long rows, O(threads * tile + B * K * T * D).
int64_t attention_workspace(const AttentionShape& shape, int threads);
// The same for forward alone: O(threads * tile), and D floats for each query row and 256 keys where Tq <= 4.
int64_t attention_forward_workspace(const AttentionShape& shape, int threads);

// out = o; running_max and running_sum are (B, H, Tq): m and l above. A query that sees no key gets o = 0,
// m = 0, l = 0, with a sink too. Up to 4 queries and more keys than that are decoded: the keys stream past
// all queries of a key/value head once, in ranges that the threads share.
void attention_forward(Executor& executor, const AttentionShape& shape, const AttentionOptions& options,
                       ConstHeadView query, ConstHeadView key, ConstHeadView value, HeadView out,
                       float* running_max, float* running_sum, float* workspace);
// Keys and values stored as bfloat16; the same bits as for floats of the same values.
void attention_forward(Executor& executor, const AttentionShape& shape, const AttentionOptions& options,
                       ConstHeadView query, HeadRows<const Bfloat16> key, HeadRows<const Bfloat16> value,
                       HeadView out, float* running_max, float* running_sum, float* workspace);

// With delta_i = do_i . o_i:  dp_ij = do_i . v_j,  ds_ij = p_ij (dp_ij - delta_i),
//   dq_i = scale sum_j ds_ij k_j,   dk_j = scale sum_i ds_ij q_i,   dv_j = sum_i p_ij do_i.
// with softcap ds_ij also times 1 - tanh^2 of the score before it; dsink_h = -sum_i exp(sink_h - m_i) / l_i
// delta_i. Overwrites dquery, dkey, dvalue and, unless null, dsinks (B, H), to be summed over B. No two
// threads add to the same sums at a time, and the order of additions is fixed: bit-equal for any thread
// count.
void attention_backward(Executor& executor, const AttentionShape& shape, const AttentionOptions& options,
                        ConstHeadView query, ConstHeadView key, ConstHeadView value, ConstHeadView out,
                        const float* running_max, const float* running_sum, ConstHeadView dout,
                        HeadView dquery, HeadView dkey, HeadView dvalue, float* workspace,
                        float* dsinks = nullptr);

// The weights p (Tq, Tk) of one head, for looking inside; not used in training. No dropout.
void attention_weights(const AttentionShape& shape, const AttentionOptions& options, ConstHeadView query,
                       ConstHeadView key, const float* running_max, const float* running_sum, int64_t batch,
                       int64_t head, float* weights);

}  // namespace tril
