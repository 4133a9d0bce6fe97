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
#include "tril/kernels/attention_rounds.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

// sums[k] += sum_q weights[k][q] * rows[q]: dv from p and douts, dk from ds and queries.
inline void add_over_queries(const Tile& tile, bool poisoned, const Packing& packing, const float* weights,
                             const float* rows, Ahead* ahead, float* sums) {
  if (poisoned && tile.sight == Sight::kPart) {
    product_of_visible(
        tile.keys, packing.width, tile.queries, [&](int64_t k, int64_t q) { return tile.visible(q, k); },
        weights, kTileStride, 1, rows, sums, packing.stride);
    return;
  }
  for (int64_t k = 0; k < tile.keys; k += tile.strip()) {
    const int64_t keys = std::min(tile.strip(), tile.keys - k);
    const int64_t q = tile.first_query(k), end = std::min(tile.queries, tile.end_query(k + keys));
    if (q >= end) continue;
    product<Left::kByRows>(keys, packing.width, end - q, weights + k * kTileStride + q, kTileStride,
                           rows + q * packing.stride, packing.stride, sums + k * packing.stride,
                           packing.stride, Added{ahead});
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

// rows[t] of one head = factor * packed[t], for the rows of a tile.
inline void unpack_rows(HeadView rows, int64_t batch, int64_t head, int64_t tile, int64_t length,
                        const Packing& packing, float factor, const float* packed) {
  for (int64_t t = tile * kTile; t < std::min(length, (tile + 1) * kTile); ++t)
    unpack_row(packing, factor, packed + t * packing.stride, rows.row(batch, t, head));
}

class Backward {
 public:
  // head_space (BackwardLayout) belongs to the key/value head, tile_space (BackwardTiles) to the worker.
  Backward(const BackwardCall& call, int64_t batch, int64_t kv_head, Ahead* ahead, float* head_space,
           float* tile_space)
      : call_(call),
        batch_(batch),
        kv_head_(kv_head),
        layout_(call),
        base_(aligned(head_space)),
        packing_(call.packing()),
        tiles_(packing_),
        tile_base_(aligned(tile_space)),
        ahead_(ahead) {}

  // All of one key/value head: nobody else writes its dkey and dvalue.
  void run() {
    const TileRange keys{0, call_.key_tiles()}, queries{0, call_.query_tiles()};
    for (int64_t t = 0; t < keys.last; ++t) pack_keys(t);
    for (int64_t head = kv_head_ * call_.group(); head < (kv_head_ + 1) * call_.group(); ++head) {
      for (int64_t t = 0; t < queries.last; ++t) pack_queries(head, t);
      visit(head, keys, queries);
      for (int64_t t = 0; t < queries.last; ++t) unpack_queries(head, t);
    }
    for (int64_t t = 0; t < keys.last; ++t) unpack_keys(t);
  }

  // One of the pieces of the same.
  void run(const Rounds& rounds, const BackwardStep& step, int64_t index) {
    const int64_t head = kv_head_ * call_.group() + step.member;
    switch (step.kind) {
      case BackwardStep::kPackKeys:
        return pack_keys(index);
      case BackwardStep::kPackQueries:
        return pack_queries(head, index);
      case BackwardStep::kUnpackQueries:
        return unpack_queries(head, index);
      case BackwardStep::kUnpackKeys:
        return unpack_keys(index);
      case BackwardStep::kVisit:
        break;
    }
    const Pair pair = rounds.pair(step.round, index);
    visit(head, rounds.keys(pair.keys), rounds.queries(pair.queries));
    if (rounds.near || step.round == 0) return;
    visit(head, rounds.keys(pair.queries), rounds.queries(pair.keys));
  }

 private:
  float* at(int64_t offset) const { return base_ + offset; }
  float* tile_at(int64_t offset) const { return tile_base_ + offset; }
  int64_t across_tile() const { return packing_.width * kTileStride; }

  void pack_keys(int64_t t) {
    const int64_t first = t * kTile, count = std::min(kTile, call_.shape.key_length - first);
    at(layout_.keys_poison)[t] = pack_rows(call_.key, batch_, kv_head_, first, count, packing_,
                                           at(layout_.keys) + first * packing_.stride);
    pack_rows(call_.value, batch_, kv_head_, first, count, packing_,
              at(layout_.values) + first * packing_.stride);
    for (const int64_t sums : {layout_.dkeys, layout_.dvalues})
      clear(at(sums) + first * packing_.stride, count * packing_.stride);
  }

  void unpack_keys(int64_t t) {
    const int64_t length = call_.shape.key_length;
    unpack_rows(call_.dkey, batch_, kv_head_, t, length, packing_, call_.scale, at(layout_.dkeys));
    unpack_rows(call_.dvalue, batch_, kv_head_, t, length, packing_, 1.0f, at(layout_.dvalues));
  }

  void unpack_queries(int64_t head, int64_t t) {
    unpack_rows(call_.dquery, batch_, head, t, call_.shape.query_length, packing_, call_.scale,
                at(layout_.dqueries));
    if (t == 0 && call_.options.sinks != nullptr && call_.dsinks != nullptr) sink_gradient(head);
  }

  void visit(int64_t head, TileRange keys, TileRange queries) {
    for (int64_t block = keys.first; block < keys.last; block += kBackwardBlock) {
      const int64_t block_end = std::min(keys.last, block + kBackwardBlock);
      for (int64_t t = queries.first; t < queries.last; ++t) {
        for (int64_t k = block; k < block_end; ++k) {
          const Tile tile = look(call_, batch_, t, k);
          if (tile.sight != Sight::kNone) visit(tile, head);
        }
      }
    }
  }

  // q, do, their transposes, and per row m, 1 / l and delta = do . o. The sum over the head size runs in the
  // order of dp = do . v, so a row that saw one key has dp == delta and ds == 0, exactly.
  void pack_queries(int64_t head, int64_t t) {
    const int64_t first = t * kTile, count = std::min(kTile, call_.shape.query_length - first);
    const int64_t padded = round_up(count, kPad);
    float* const queries = at(layout_.queries) + first * packing_.stride;
    float* const douts = at(layout_.douts) + first * packing_.stride;
    float* const douts_across = at(layout_.douts_across) + t * across_tile();
    at(layout_.queries_poison)[t] = pack_rows(call_.query, batch_, head, first, count, packing_, queries);
    at(layout_.douts_poison)[t] = pack_rows(call_.dout, batch_, head, first, count, packing_, douts);
    clear(at(layout_.dqueries) + first * packing_.stride, count * packing_.stride);
    clear(queries + count * packing_.stride, (padded - count) * packing_.stride);
    clear(douts + count * packing_.stride, (padded - count) * packing_.stride);
    transpose(queries, padded, packing_, call_.scale, at(layout_.queries_across) + t * across_tile());
    transpose(douts, padded, packing_, 1.0f, douts_across);
    pack_rows(call_.out, batch_, head, first, count, packing_, tile_at(tiles_.outs));
    clear(tile_at(tiles_.outs) + count * packing_.stride, (padded - count) * packing_.stride);
    transpose(tile_at(tiles_.outs), padded, packing_, 1.0f, tile_at(tiles_.outs_across));
    rows_dot(packing_.head_size, padded, douts_across, tile_at(tiles_.outs_across),
             at(layout_.delta) + first);
    const int64_t stats = (batch_ * call_.shape.query_heads + head) * call_.shape.query_length + first;
    load_softmax(call_.running_max + stats, call_.running_sum + stats, count, at(layout_.maximum) + first,
                 at(layout_.inverse_sum) + first);
  }

  // The sink's weight is exp(sink - m) / l and its dp is 0: dsink = -sum_i p_i delta_i.
  void sink_gradient(int64_t head) {
    double sum = 0;
    for (int64_t i = 0; i < call_.shape.query_length; ++i) {
      if (at(layout_.inverse_sum)[i] == 0) continue;  // no keys, and dout may be anything
      const float p =
          std::exp(call_.options.sinks[head] - at(layout_.maximum)[i]) * at(layout_.inverse_sum)[i];
      sum -= double{p} * at(layout_.delta)[i];
    }
    call_.dsinks[batch_ * call_.shape.query_heads + head] = static_cast<float>(sum);
  }

  void visit(const Tile& tile, int64_t head) {
    const int64_t query_tile = tile.query / kTile, key_tile = tile.key / kTile;
    const float* const keys = at(layout_.keys) + tile.key * packing_.stride;
    const float* const values = at(layout_.values) + tile.key * packing_.stride;
    float *const p = tile_at(tiles_.weights), *const ds = tile_at(tiles_.dscores);
    // s = (scale * q) . k;  p = exp(s - m) / l
    scores_of(tile, packing_, keys, at(layout_.queries_across) + query_tile * across_tile(), ahead_, p);
    float* const slopes = call_.options.softcap > 0 ? tile_at(tiles_.slopes) : nullptr;
    if (call_.reshapes_scores()) reshape_scores(tile, call_.options, head, p, slopes);
    recompute_weights(tile, at(layout_.maximum) + tile.query, at(layout_.inverse_sum) + tile.query, p);
    // dp = do . v;  ds = p (keep dp - delta);  p = keep p, where keep = 1 without dropout
    scores_of(tile, packing_, values, at(layout_.douts_across) + query_tile * across_tile(), ahead_, ds);
    const float* const delta = at(layout_.delta) + tile.query;
    if (call_.options.dropout > 0) {
      float* const keep = tile_at(tiles_.keep);
      draw_dropout(call_.options, tile, batch_ * call_.shape.query_heads + head, keep);
      softmax_backward(tile, delta, slopes, WithKeep{keep}, p, ds);
    } else {
      softmax_backward(tile, delta, slopes, WithoutKeep(), p, ds);
    }
    // dv_j += p_ij do_i;  dk_j += ds_ij q_i;  dq_i += ds_ij k_j  (the scale comes last, in unpack_rows)
    add_over_queries(tile, at(layout_.douts_poison)[query_tile] != 0, packing_, p,
                     at(layout_.douts) + tile.query * packing_.stride, ahead_,
                     at(layout_.dvalues) + tile.key * packing_.stride);
    add_over_queries(tile, at(layout_.queries_poison)[query_tile] != 0, packing_, ds,
                     at(layout_.queries) + tile.query * packing_.stride, ahead_,
                     at(layout_.dkeys) + tile.key * packing_.stride);
    add_over_keys(tile, at(layout_.keys_poison)[key_tile] != 0, packing_, ds, keys, ahead_,
                  at(layout_.dqueries) + tile.query * packing_.stride);
  }

  const BackwardCall& call_;
  const int64_t batch_, kv_head_;
  const BackwardLayout layout_;
  float* const base_;
  const Packing packing_;
  const BackwardTiles tiles_;
  float* const tile_base_;
  Ahead* const ahead_;
};

// Heads that are one chunk each, or a chunk of several short ones.
inline void backward_chunk(const BackwardCall& call, int64_t chunk, float* head_space, float* tile_space) {
  const AttentionShape& s = call.shape;
  const HeadsOfChunk heads = call.heads_of_chunk(chunk);
  const bool is_near = near_rows(call.query.time_stride) && near_rows(call.key.time_stride) &&
                       near_rows(call.value.time_stride) && near_rows(call.out.time_stride) &&
                       near_rows(call.dout.time_stride);
  if (call.is_short() && is_near) {
    for (int64_t h = heads.first; h < heads.last; ++h) backward_short(call, h / s.kv_heads, h % s.kv_heads);
    return;
  }
  const bool asks = call.asks_ahead();
  for (int64_t h = heads.first; h < heads.last; ++h) {
    const int64_t b = h / s.kv_heads, k = h % s.kv_heads, next_b = (h + 1) / s.kv_heads,
                  next_k = (h + 1) % s.kv_heads;
    Ahead ahead;
    if (asks && h + 1 < heads.last) {
      for (const ConstHeadView* rows : {&call.key, &call.value})
        ahead.add(*rows, next_b, next_k, s.key_length, s.head_size);
      for (const ConstHeadView* rows : {&call.query, &call.dout, &call.out})
        ahead.add(*rows, next_b, next_k, s.query_length, s.head_size);
    }
    if (asks) {
      ahead.add(call.dquery, b, k, s.query_length, s.head_size);
      for (const HeadView* rows : {&call.dkey, &call.dvalue})
        ahead.add(*rows, b, k, s.key_length, s.head_size);
    }
    Backward(call, b, k, asks ? &ahead : nullptr, head_space, tile_space).run();
  }
}

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
    scores_of(tile, packing, workspace + layout.keys, queries, nullptr, p);
    if (call.reshapes_scores()) reshape_scores(tile, call.options, head, p, nullptr);
    recompute_weights(tile, maximum, inverse_sum, p);
    for (int64_t q = 0; q < tile.queries; ++q) {
      for (int64_t j = 0; j < tile.keys; ++j) {
        if (tile.visible(q, j)) weights[q * key_length + tile.key + j] = p[j * kTileStride + q];
      }
    }
  }
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_BACKWARD_INL_H_
