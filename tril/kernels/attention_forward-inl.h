// The forward loop: for each tile of queries, over the tiles of keys that they see.

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_FORWARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_FORWARD_INL_H_
#undef TRIL_KERNELS_ATTENTION_FORWARD_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_FORWARD_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <cmath>

#include "tril/kernels/attention_dropout-inl.h"
#include "tril/kernels/attention_pack-inl.h"
#include "tril/kernels/attention_scores-inl.h"
#include "tril/kernels/attention_short-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

// scores[k][q] = sum_i left[k][i] * across[i][q]: s_ij from keys and scaled queries, dp_ij from values and
// douts. Outside the staircases of a tile nothing is computed, and nothing there is read later.
inline void scores_of(const Tile& tile, const Packing& packing, const float* left, const float* across,
                      Ahead* ahead, float* scores) {
  const int64_t columns = round_up(tile.queries, kLanes);
  for (int64_t k = 0; k < tile.keys; k += tile.strip()) {
    const int64_t keys = std::min(tile.strip(), tile.keys - k);
    const int64_t q = tile.first_query(k), end = std::min(columns, tile.end_query(k + keys));
    if (q >= end) continue;
    product<Left::kByRows>(keys, end - q, packing.head_size, left + k * packing.stride, packing.stride,
                           across + q, kTileStride, scores + k * kTileStride + q, kTileStride, Stored{ahead});
  }
}

// sums[q] += sum_k weights[k][q] * rows[k]: o from p and values, dq from ds and keys.
inline void add_over_keys(const Tile& tile, bool poisoned, const Packing& packing, const float* weights,
                          const float* rows, Ahead* ahead, float* sums) {
  if (poisoned && tile.sight == Sight::kPart) {
    product_of_visible(
        tile.queries, packing.width, tile.keys, [&](int64_t q, int64_t k) { return tile.visible(q, k); },
        weights, 1, kTileStride, rows, sums, packing.stride);
    return;
  }
  for (int64_t q = 0; q < tile.queries; q += tile.strip()) {
    const int64_t queries = std::min(tile.strip(), tile.queries - q);
    const int64_t k = tile.first_key(q), end = tile.last_key(q + queries);
    if (k >= end) continue;
    product<Left::kByColumns>(queries, packing.width, end - k, weights + k * kTileStride + q, kTileStride,
                              rows + k * packing.stride, packing.stride, sums + q * packing.stride,
                              packing.stride, Added{ahead});
  }
}

// o_i *= decay_i, before a tile that raised the maximum adds to o.
inline void fade(int64_t queries, const Packing& packing, const float* decay, float* output) {
  const Floats d;
  for (int64_t q = 0; q < queries; ++q) {
    if (decay[q] == 1.0f) continue;
    const Vector factor = hn::Set(d, decay[q]);
    for (int64_t i = 0; i < packing.width; i += kLanes) {
      float* const at = output + q * packing.stride + i;
      hn::StoreU(hn::Mul(hn::LoadU(d, at), factor), d, at);
    }
  }
}

class Forward {
 public:
  Forward(const ForwardCall& call, int64_t batch, int64_t kv_head, Ahead* ahead, float* workspace)
      : call_(call),
        batch_(batch),
        kv_head_(kv_head),
        layout_(call),
        base_(aligned(workspace)),
        packing_(call.packing()),
        ahead_(ahead) {}

  // Query tiles [first, last) of all query heads that share the key/value head.
  void run(int64_t first, int64_t last) {
    const int64_t slots = (last - first) * call_.group();
    const auto head = [&](int64_t slot) { return kv_head_ * call_.group() + slot / (last - first); };
    const auto query_tile = [&](int64_t slot) { return first + slot % (last - first); };
    for (int64_t slot = 0; slot < slots; ++slot) start(slot, head(slot), query_tile(slot));
    const int64_t key_tiles = divide_up(call_.key_end(batch_, last * kTile), kTile);
    for (int64_t k = 0; k < key_tiles; ++k) {
      bool packed = false;
      for (int64_t slot = 0; slot < slots; ++slot) {
        const Tile tile = look(call_, batch_, query_tile(slot), k);
        if (tile.sight == Sight::kNone) continue;
        if (!packed) pack_keys(k);
        packed = true;
        visit(tile, slot, head(slot));
      }
    }
    for (int64_t slot = 0; slot < slots; ++slot) finish(slot, head(slot), query_tile(slot));
  }

 private:
  float* at(int64_t offset) const { return base_ + offset; }
  float* queries(int64_t slot) const { return at(layout_.queries) + slot * packing_.width * kTileStride; }
  float* output(int64_t slot) const { return at(layout_.output) + slot * kTile * packing_.stride; }
  float* maximum(int64_t slot) const { return at(layout_.maximum) + slot * kTile; }
  float* sum(int64_t slot) const { return at(layout_.sum) + slot * kTile; }
  int64_t query_count(int64_t t) const { return std::min(kTile, call_.shape.query_length - t * kTile); }

  void start(int64_t slot, int64_t head, int64_t t) {
    const int64_t count = query_count(t), padded = round_up(count, kPad);
    float* const rows = at(layout_.rows);
    pack_rows(call_.query, batch_, head, t * kTile, count, packing_, rows);
    clear(rows + count * packing_.stride, (padded - count) * packing_.stride);
    transpose(rows, padded, packing_, call_.scale, queries(slot));
    std::fill_n(maximum(slot), kTile, kLowest);
    clear(sum(slot), kTile);
    clear(output(slot), count * packing_.stride);
  }

  void pack_keys(int64_t k) {
    const int64_t first = k * kTile, count = std::min(kTile, call_.keys(batch_) - first);
    pack_rows(call_.key, batch_, kv_head_, first, count, packing_, at(layout_.keys));
    const float poison = pack_rows(call_.value, batch_, kv_head_, first, count, packing_, at(layout_.values));
    values_poisoned_ = poison != 0;
  }

  void visit(const Tile& tile, int64_t slot, int64_t head) {
    float* const p = at(layout_.scores);
    scores_of(tile, packing_, at(layout_.keys), queries(slot), ahead_, p);
    if (call_.reshapes_scores()) reshape_scores(tile, call_.options, head, p, nullptr);
    running_softmax(tile, p, maximum(slot), sum(slot), at(layout_.decay));
    if (call_.options.dropout > 0) {
      drop_weights(call_.options, tile, batch_ * call_.shape.query_heads + head, p);
    }
    fade(tile.queries, packing_, at(layout_.decay), output(slot));
    add_over_keys(tile, values_poisoned_, packing_, p, at(layout_.values), ahead_, output(slot));
  }

  // o_i = (sum_j exp(s_ij - m_i) v_j) / l_i, or zeros where no key was seen. The sink joins m and l last.
  void finish(int64_t slot, int64_t head, int64_t t) {
    const int64_t first = t * kTile;
    const int64_t stats = (batch_ * call_.shape.query_heads + head) * call_.shape.query_length + first;
    const int64_t padding = std::clamp<int64_t>(call_.padding(batch_) - first, 0, query_count(t));
    std::fill_n(sum(slot), padding, 0.0f);
    clear(output(slot), padding * packing_.stride);
    for (int64_t q = 0; q < query_count(t); ++q) {
      float l = sum(slot)[q], m = l == 0 ? 0.0f : maximum(slot)[q], decay = 1;
      if (call_.options.sinks != nullptr && l != 0) {
        const float sink = call_.options.sinks[head], higher = std::max(m, sink);
        decay = std::exp(m - higher);
        l = decay * l + std::exp(sink - higher);
        m = higher;
      }
      unpack_row(packing_, l == 0 ? 0.0f : decay / l, output(slot) + q * packing_.stride,
                 call_.out.row(batch_, first + q, head));
      call_.running_max[stats + q] = m;
      call_.running_sum[stats + q] = l;
    }
  }

  const ForwardCall& call_;
  const int64_t batch_, kv_head_;
  const ForwardLayout layout_;
  float* const base_;
  const Packing packing_;
  Ahead* const ahead_;
  bool values_poisoned_ = false;
};

// Chunks are numbered with the last blocks first: with causality they are the longest.
inline void forward_chunk(const ForwardCall& call, int64_t chunk, float* workspace) {
  const AttentionShape& s = call.shape;
  const HeadsOfChunk heads = call.heads_of_chunk(chunk % call.head_chunks());
  if (call.is_short() && near_rows(call.query.time_stride)) {
    for (int64_t h = heads.first; h < heads.last; ++h) forward_short(call, h / s.kv_heads, h % s.kv_heads);
    return;
  }
  const int64_t first = (call.query_blocks() - 1 - chunk / call.head_chunks()) * call.block();
  const bool asks = call.asks_ahead();
  for (int64_t h = heads.first; h < heads.last; ++h) {
    const int64_t b = h / s.kv_heads, k = h % s.kv_heads, next_b = (h + 1) / s.kv_heads,
                  next_k = (h + 1) % s.kv_heads;
    Ahead ahead;
    if (asks) ahead.add(call.out, b, k, s.query_length, s.head_size);
    if (asks && h + 1 < heads.last) {
      ahead.add(call.query, next_b, next_k, s.query_length, s.head_size);
      for (const StoredRows* stored : {&call.key, &call.value})
        std::visit([&](const auto& rows) { ahead.add(rows, next_b, next_k, call.keys(next_b), s.head_size); },
                   *stored);
    }
    Forward(call, b, k, asks ? &ahead : nullptr, workspace)
        .run(first, std::min(call.query_tiles(), first + call.block()));
  }
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_FORWARD_INL_H_
