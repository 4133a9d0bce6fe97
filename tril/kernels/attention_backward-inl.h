// The backward loop: for each tile of keys, over the tiles of queries that see it.

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_BACKWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_BACKWARD_INL_H_
#undef TRIL_KERNELS_ATTENTION_BACKWARD_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_BACKWARD_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include "tril/kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

// sums[k] += sum_q weights[k][q] * rows[q]: dv from p and douts, dk from ds and queries.
inline void add_over_queries(const Tile& tile, bool poisoned, const Packing& packing, const float* weights,
                             const float* rows, float* sums) {
  if (poisoned && tile.sight == Sight::kPart) {
    product_of_visible(
        tile.keys, packing.width, tile.queries, [&](int64_t k, int64_t q) { return tile.visible(q, k); },
        weights, kTileStride, 1, rows, sums, packing.stride);
    return;
  }
  for (int64_t k = 0; k < tile.keys; k += tile.strip()) {
    const int64_t q = tile.first_query(k);
    if (q >= tile.queries) break;
    product<Left::kByRows>(std::min(tile.strip(), tile.keys - k), packing.width, tile.queries - q,
                           weights + k * kTileStride + q, kTileStride, rows + q * packing.stride,
                           packing.stride, sums + k * packing.stride, packing.stride, Added());
  }
}

// m and 1 / l of a tile's queries; 0 for rows that saw no key, and for the padding.
inline void load_softmax(const float* running_max, const float* running_sum, int64_t queries, float* maximum,
                         float* inverse_sum) {
  clear(maximum, kTile);
  clear(inverse_sum, kTile);
  for (int64_t q = 0; q < queries; ++q) {
    maximum[q] = running_max[q];
    inverse_sum[q] = running_sum[q] == 0 ? 0.0f : 1.0f / running_sum[q];
  }
}

// out[q] = sum_i a[i][q] * b[i][q]
inline void rows_dot(int64_t head_size, int64_t queries, const float* a, const float* b, float* out) {
  const Floats d;
  for (int64_t q = 0; q < queries; q += kLanes) {
    Vector sum = hn::Zero(d);
    for (int64_t i = 0; i < head_size; ++i) {
      sum = hn::MulAdd(hn::LoadU(d, a + i * kTileStride + q), hn::LoadU(d, b + i * kTileStride + q), sum);
    }
    hn::StoreU(sum, d, out + q);
  }
}

// rows[t] of one head = factor * packed[t].
inline void unpack_rows(HeadView rows, int64_t batch, int64_t head, int64_t count, const Packing& packing,
                        float factor, const float* packed) {
  for (int64_t t = 0; t < count; ++t)
    unpack_row(packing, factor, packed + t * packing.stride, rows.row(batch, t, head));
}

class Backward {
 public:
  Backward(const BackwardCall& call, float* workspace)
      : call_(call), layout_(call), base_(aligned(workspace)), packing_(call.packing()) {}

  // One key/value head, for all query heads that share it: nobody else writes its dkey and dvalue.
  void run(int64_t batch, int64_t kv_head) {
    const int64_t keys = call_.shape.key_length;
    for (int64_t t = 0; t < call_.key_tiles(); ++t) pack_keys(batch, kv_head, t);
    clear(at(layout_.dkeys), keys * packing_.stride);
    clear(at(layout_.dvalues), keys * packing_.stride);
    for (int64_t g = 0; g < call_.group(); ++g) query_head(batch, kv_head * call_.group() + g);
    unpack_rows(call_.dkey, batch, kv_head, keys, packing_, call_.scale, at(layout_.dkeys));
    unpack_rows(call_.dvalue, batch, kv_head, keys, packing_, 1.0f, at(layout_.dvalues));
  }

 private:
  float* at(int64_t offset) const { return base_ + offset; }
  int64_t across_tile() const { return packing_.width * kTileStride; }

  void pack_keys(int64_t batch, int64_t kv_head, int64_t t) {
    const int64_t first = t * kTile, count = std::min(kTile, call_.shape.key_length - first);
    at(layout_.keys_poison)[t] = pack_rows(call_.key, batch, kv_head, first, count, packing_,
                                           at(layout_.keys) + first * packing_.stride);
    pack_rows(call_.value, batch, kv_head, first, count, packing_,
              at(layout_.values) + first * packing_.stride);
  }

  void query_head(int64_t batch, int64_t head) {
    for (int64_t t = 0; t < call_.query_tiles(); ++t) pack_queries(batch, head, t);
    if (call_.options.sinks != nullptr && call_.dsinks != nullptr) sink_gradient(batch, head);
    clear(at(layout_.dqueries), call_.query_tiles() * kTile * packing_.stride);
    for (int64_t block = 0; block < call_.key_tiles(); block += kBackwardBlock) {
      const int64_t block_end = std::min(call_.key_tiles(), block + kBackwardBlock);
      for (int64_t t = 0; t < call_.query_tiles(); ++t) {
        for (int64_t k = block; k < block_end; ++k) {
          const Tile tile = look(call_, batch, t, k);
          if (tile.sight != Sight::kNone) visit(tile, batch, head);
        }
      }
    }
    unpack_rows(call_.dquery, batch, head, call_.shape.query_length, packing_, call_.scale,
                at(layout_.dqueries));
  }

  // q, do, their transposes, and per row m, 1 / l and delta = do . o. The sum over the head size runs in the
  // order of dp = do . v, so a row that saw one key has dp == delta and ds == 0, exactly.
  void pack_queries(int64_t batch, int64_t head, int64_t t) {
    const int64_t first = t * kTile, count = std::min(kTile, call_.shape.query_length - first);
    const int64_t padded = round_up(count, kPad);
    float* const queries = at(layout_.queries) + first * packing_.stride;
    float* const douts = at(layout_.douts) + first * packing_.stride;
    float* const douts_across = at(layout_.douts_across) + t * across_tile();
    at(layout_.queries_poison)[t] = pack_rows(call_.query, batch, head, first, count, packing_, queries);
    at(layout_.douts_poison)[t] = pack_rows(call_.dout, batch, head, first, count, packing_, douts);
    clear(queries + count * packing_.stride, (padded - count) * packing_.stride);
    clear(douts + count * packing_.stride, (padded - count) * packing_.stride);
    transpose(queries, padded, packing_, call_.scale, at(layout_.queries_across) + t * across_tile());
    transpose(douts, padded, packing_, 1.0f, douts_across);
    pack_rows(call_.out, batch, head, first, count, packing_, at(layout_.outs));
    clear(at(layout_.outs) + count * packing_.stride, (padded - count) * packing_.stride);
    transpose(at(layout_.outs), padded, packing_, 1.0f, at(layout_.outs_across));
    rows_dot(packing_.head_size, padded, douts_across, at(layout_.outs_across), at(layout_.delta) + first);
    const int64_t stats = (batch * call_.shape.query_heads + head) * call_.shape.query_length + first;
    load_softmax(call_.running_max + stats, call_.running_sum + stats, count, at(layout_.maximum) + first,
                 at(layout_.inverse_sum) + first);
  }

  // The sink's weight is exp(sink - m) / l and its dp is 0: dsink = -sum_i p_i delta_i.
  void sink_gradient(int64_t batch, int64_t head) {
    double sum = 0;
    for (int64_t i = 0; i < call_.shape.query_length; ++i) {
      if (at(layout_.inverse_sum)[i] == 0) continue;  // no keys, and dout may be anything
      const float p =
          std::exp(call_.options.sinks[head] - at(layout_.maximum)[i]) * at(layout_.inverse_sum)[i];
      sum -= double{p} * at(layout_.delta)[i];
    }
    call_.dsinks[batch * call_.shape.query_heads + head] = static_cast<float>(sum);
  }

  void visit(const Tile& tile, int64_t batch, int64_t head) {
    const int64_t query_tile = tile.query / kTile, key_tile = tile.key / kTile;
    const float* const keys = at(layout_.keys) + tile.key * packing_.stride;
    const float* const values = at(layout_.values) + tile.key * packing_.stride;
    float *const p = at(layout_.weights), *const ds = at(layout_.dscores);
    // s = (scale * q) . k;  p = exp(s - m) / l
    scores_of(tile, packing_, keys, at(layout_.queries_across) + query_tile * across_tile(), p);
    float* const slopes = call_.options.softcap > 0 ? at(layout_.slopes) : nullptr;
    if (call_.reshapes_scores()) reshape_scores(tile, call_.options, head, p, slopes);
    recompute_weights(tile, at(layout_.maximum) + tile.query, at(layout_.inverse_sum) + tile.query, p);
    // dp = do . v;  ds = p (dp - delta), with dropout p (keep * dp - delta)
    scores_of(tile, packing_, values, at(layout_.douts_across) + query_tile * across_tile(), ds);
    const bool dropout = call_.options.dropout > 0;
    if (dropout) {
      draw_dropout(call_.options, tile, batch * call_.shape.query_heads + head, at(layout_.keep));
      apply_dropout(tile, at(layout_.keep), ds);
    }
    softmax_backward(tile, p, at(layout_.delta) + tile.query, slopes, ds);
    if (dropout) apply_dropout(tile, at(layout_.keep), p);
    // dv_j += p_ij do_i;  dk_j += ds_ij q_i;  dq_i += ds_ij k_j  (the scale comes last, in unpack_rows)
    add_over_queries(tile, at(layout_.douts_poison)[query_tile] != 0, packing_, p,
                     at(layout_.douts) + tile.query * packing_.stride,
                     at(layout_.dvalues) + tile.key * packing_.stride);
    add_over_queries(tile, at(layout_.queries_poison)[query_tile] != 0, packing_, ds,
                     at(layout_.queries) + tile.query * packing_.stride,
                     at(layout_.dkeys) + tile.key * packing_.stride);
    add_over_keys(tile, at(layout_.keys_poison)[key_tile] != 0, packing_, ds, keys,
                  at(layout_.dqueries) + tile.query * packing_.stride);
  }

  const BackwardCall& call_;
  const BackwardLayout layout_;
  float* const base_;
  const Packing packing_;
};

// weights (queries of tile t, Tk) of one head, recomputed as above.
inline void weights_of_queries(const WeightsCall& call, int64_t batch, int64_t head, int64_t t,
                               float* workspace, float* weights) {
  workspace = aligned(workspace);
  const ForwardLayout layout(call);
  const Packing packing = call.packing();
  const int64_t key_length = call.shape.key_length;
  const int64_t first = t * kTile, count = std::min(kTile, call.shape.query_length - first);
  const int64_t padded = round_up(count, kPad);
  float *const rows = workspace + layout.rows, *const queries = workspace + layout.queries;
  float *const maximum = workspace + layout.maximum, *const inverse_sum = workspace + layout.sum;
  float* const p = workspace + layout.scores;
  pack_rows(call.query, batch, head, first, count, packing, rows);
  clear(rows + count * packing.stride, (padded - count) * packing.stride);
  transpose(rows, padded, packing, call.scale, queries);
  const int64_t stats = (batch * call.shape.query_heads + head) * call.shape.query_length + first;
  load_softmax(call.running_max + stats, call.running_sum + stats, count, maximum, inverse_sum);
  clear(weights, count * key_length);
  for (int64_t k = 0; k < call.key_tiles(); ++k) {
    const Tile tile = look(call, batch, t, k);
    if (tile.sight == Sight::kNone) continue;
    pack_rows(call.key, batch, head / call.group(), tile.key, tile.keys, packing, workspace + layout.keys);
    scores_of(tile, packing, workspace + layout.keys, queries, p);
    if (call.reshapes_scores()) reshape_scores(tile, call.options, head, p, nullptr);
    recompute_weights(tile, maximum, inverse_sum, p);
    for (int64_t q = 0; q < tile.queries; ++q) {
      for (int64_t j = 0; j < tile.keys; ++j) {
        if (tile.visible(q, j)) weights[q * key_length + tile.key + j] = p[j * kTileStride + q];
      }
    }
  }
}

inline void backward_chunk(const BackwardCall& call, int64_t chunk, float* workspace) {
  Backward(call, workspace).run(chunk / call.shape.kv_heads, chunk % call.shape.kv_heads);
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_BACKWARD_INL_H_
