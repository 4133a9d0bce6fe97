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

#include "tril/kernels/attention_dropout-inl.h"
#include "tril/kernels/attention_pack-inl.h"
#include "tril/kernels/attention_softmax-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

// scores[k][q] = factor * sum_i left[k][i] * across[i][q]: s_ij from keys and queries, dp_ij from values and
// douts. Below the staircase of a diagonal tile nothing is computed, and nothing there is read later.
inline void scores_of(const Tile& tile, int64_t head_size, int64_t row, const float* left,
                      const float* across, float factor, float* scores) {
  const int64_t columns = round_up(tile.queries, kLanes);
  for (int64_t k = 0; k < tile.keys; k += tile.strip()) {
    const int64_t q = tile.first_query(k);
    if (q >= columns) break;
    product<Left::kByRows>(std::min(tile.strip(), tile.keys - k), columns - q, head_size, left + k * row, row,
                           across + q, kTile, scores + k * kTile + q, kTile, Scaled{factor});
  }
}

// sums[q] += sum_k weights[k][q] * rows[k]: o from p and values, dq from ds and keys.
inline void add_over_keys(const Tile& tile, bool poisoned, int64_t row, const float* weights,
                          const float* rows, float* sums) {
  if (poisoned && tile.sight == Sight::kPart) {
    product_of_visible(
        tile.queries, row, tile.keys, [&](int64_t q, int64_t k) { return tile.visible(q, k); }, weights, 1,
        kTile, rows, row, sums, row);
    return;
  }
  for (int64_t q = 0; q < tile.queries; q += tile.strip()) {
    const int64_t queries = std::min(tile.strip(), tile.queries - q);
    product<Left::kByColumns>(queries, row, tile.last_key(q + queries), weights + q, kTile, rows, row,
                              sums + q * row, row, Added());
  }
}

// o_i *= decay_i, before a tile that raised the maximum adds to o.
inline void fade(int64_t queries, int64_t row, const float* decay, float* output) {
  const Floats d;
  for (int64_t q = 0; q < queries; ++q) {
    if (decay[q] == 1.0f) continue;
    const Vector factor = hn::Set(d, decay[q]);
    for (int64_t i = 0; i < row; i += kLanes) {
      float* const at = output + q * row + i;
      hn::StoreU(hn::Mul(hn::LoadU(d, at), factor), d, at);
    }
  }
}

class Forward {
 public:
  Forward(const ForwardCall& call, float* workspace)
      : call_(call), layout_(call), base_(workspace), row_(call.row()), head_size_(call.shape.head_size) {}

  // One block of queries of one key/value head, for all query heads that share it.
  void run(int64_t batch, int64_t kv_head, int64_t block) {
    const int64_t first = block * kQueryBlock;
    const int64_t last = std::min(call_.shape.query_length, first + kQueryBlock);
    const int64_t key_tiles = divide_up(call_.key_end(last), kTile);
    for (int64_t t = 0; t < key_tiles; ++t) pack_keys(batch, kv_head, t);
    for (int64_t g = 0; g < call_.group(); ++g) {
      for (int64_t t = first / kTile; t * kTile < last; ++t) {
        query_tile(batch, kv_head * call_.group() + g, t);
      }
    }
  }

 private:
  float* at(int64_t offset) const { return base_ + offset; }

  void pack_keys(int64_t batch, int64_t kv_head, int64_t t) {
    const int64_t first = t * kTile, count = std::min(kTile, call_.shape.key_length - first);
    pack_rows(call_.key, batch, kv_head, first, count, head_size_, row_, at(layout_.keys) + first * row_);
    at(layout_.values_poison)[t] = pack_rows(call_.value, batch, kv_head, first, count, head_size_, row_,
                                             at(layout_.values) + first * row_);
  }

  void query_tile(int64_t batch, int64_t head, int64_t t) {
    const int64_t first = t * kTile, count = std::min(kTile, call_.shape.query_length - first);
    const int64_t padded = round_up(count, kPad);
    pack_rows(call_.query, batch, head, first, count, head_size_, row_, at(layout_.rows));
    clear(at(layout_.rows) + count * row_, (padded - count) * row_);
    transpose(at(layout_.rows), padded, row_, at(layout_.queries));
    std::fill_n(at(layout_.maximum), kTile, kLowest);
    clear(at(layout_.sum), kTile);
    clear(at(layout_.output), count * row_);
    const int64_t key_tiles = divide_up(call_.key_end(first + count), kTile);
    for (int64_t k = 0; k < key_tiles; ++k) {
      const Tile tile = look(call_, batch, t, k);
      if (tile.sight != Sight::kNone) key_tile(tile, batch * call_.shape.query_heads + head);
    }
    for (int64_t q = 0; q < count; ++q) finish(batch, head, first, q);
  }

  void key_tile(const Tile& tile, int64_t stream) {
    float* const p = at(layout_.scores);
    scores_of(tile, head_size_, row_, at(layout_.keys) + tile.key * row_, at(layout_.queries), call_.scale,
              p);
    running_softmax(tile, p, at(layout_.maximum), at(layout_.sum), at(layout_.decay));
    if (call_.options.dropout > 0) {
      draw_dropout(call_.options, tile, stream, at(layout_.keep));
      apply_dropout(tile, at(layout_.keep), p);
    }
    fade(tile.queries, row_, at(layout_.decay), at(layout_.output));
    add_over_keys(tile, at(layout_.values_poison)[tile.key / kTile] != 0, row_, p,
                  at(layout_.values) + tile.key * row_, at(layout_.output));
  }

  // o_i = (sum_j exp(s_ij - m_i) v_j) / l_i, or zeros where no key was seen.
  void finish(int64_t batch, int64_t head, int64_t first, int64_t q) {
    const float l = at(layout_.sum)[q];
    const bool blind = l == 0;
    const float inverse = blind ? 0.0f : 1.0f / l;
    const float* const sums = at(layout_.output) + q * row_;
    float* const out = call_.out.row(batch, first + q, head);
    for (int64_t i = 0; i < head_size_; ++i) out[i] = sums[i] * inverse;
    const int64_t stat = (batch * call_.shape.query_heads + head) * call_.shape.query_length + first + q;
    call_.running_max[stat] = blind ? 0.0f : at(layout_.maximum)[q];
    call_.running_sum[stat] = l;
  }

  const ForwardCall& call_;
  const ForwardLayout layout_;
  float* const base_;
  const int64_t row_, head_size_;
};

// Chunks are numbered with the last blocks first: with causality they are the longest.
inline void forward_chunk(const ForwardCall& call, int64_t chunk, float* workspace) {
  const int64_t heads = call.shape.batch * call.shape.kv_heads;
  const int64_t head = chunk % heads, block = call.query_blocks() - 1 - chunk / heads;
  Forward(call, workspace).run(head / call.shape.kv_heads, head % call.shape.kv_heads, block);
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_FORWARD_INL_H_
