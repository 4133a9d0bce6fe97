// The forward loop for few queries: the keys stream past all queries of a key/value head, in ranges; what the
// ranges give is combined afterwards. docs/attention.md, "Decoding".

// clang-format off
#if defined(TRIL_KERNELS_ATTENTION_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TRIL_KERNELS_ATTENTION_DECODE_INL_H_
#undef TRIL_KERNELS_ATTENTION_DECODE_INL_H_
#else
#define TRIL_KERNELS_ATTENTION_DECODE_INL_H_
#endif
// clang-format on

#include <hwy/highway.h>

#include <cmath>

#include "tril/kernels/attention_decode_rows-inl.h"
#include "tril/kernels/attention_forward-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tril::attention::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// What one query sees, by absolute number of the key: [first, end) and [0, prefix), of its document only.
struct RowSight {
  RowSight() = default;
  RowSight(const Problem& problem, int64_t batch, int64_t query) {
    const AttentionOptions& o = problem.options;
    const int64_t keys = problem.keys(batch);
    position = problem.offset(batch) + query;
    const int64_t window = problem.window();
    end = o.causal ? std::clamp<int64_t>(position + 1, 0, keys) : keys;
    first = window > 0 ? std::clamp<int64_t>(position - window + 1, 0, end) : 0;
    prefix = std::clamp<int64_t>(problem.prefix(batch), 0, keys);
    document = o.documents && query >= problem.padding(batch)
                   ? o.documents[batch * problem.shape.key_length + position]
                   : 0;
    if (query < problem.padding(batch) || document < 0) first = end = prefix = 0;
  }
  // Are keys [key, key + count) all seen? Not asked of documents.
  bool sees_all(int64_t key, int64_t count) const {
    return (first <= key && key + count <= end) || key + count <= prefix;
  }
  bool visible(int64_t key, int32_t key_document) const {
    return ((first <= key && key < end) || key < prefix) && key_document == document;
  }
  // Lanes key, key + 1, ...
  HWY_INLINE FloatMask visible_keys(int64_t key, const int32_t* key_documents) const {
    const Integers di;
    const auto at = [&](int64_t x) HWY_ATTR { return hn::Set(di, static_cast<int32_t>(x)); };
    const auto keys = hn::Iota(di, static_cast<int32_t>(key));
    const auto seen =
        hn::Or(hn::AndNot(hn::Lt(keys, at(first)), hn::Lt(keys, at(end))), hn::Lt(keys, at(prefix)));
    const auto same = hn::Eq(hn::LoadU(di, key_documents), hn::Set(di, document));
    return hn::RebindMask(Floats(), hn::And(seen, same));
  }

  int64_t position, first, end, prefix;
  int32_t document;
};

// Keys [first, first + count), all of them readable.
struct KeyBlock {
  int64_t first, count;
};

class Decode {
 public:
  Decode(const ForwardCall& call, const DecodeLayout& layout, DecodeChunk which, int64_t chunk, float* base,
         int worker)
      : call_(call),
        layout_(layout),
        which_(which),
        packing_(call.packing()),
        worker_(base + layout.workers + worker * layout.worker_size),
        maximum_(base + layout.maximum + chunk * layout.statistics),
        sum_(base + layout.sum + chunk * layout.statistics),
        output_(base + layout.output + chunk * layout.rows * packing_.stride) {}

  void run() {
    start();
    const VisibleBlocks blocks(call_, which_.batch);
    const int64_t first = which_.range * kDecodeRange, last = std::min(blocks.count(), first + kDecodeRange);
    for (int64_t i = first; i < last; ++i) {
      const int64_t key = blocks.block(i) * kDecodeKeys;
      ahead_ = i + kDecodeAhead < blocks.count() ? blocks.block(i + kDecodeAhead) * kDecodeKeys - key : 0;
      visit({key, std::min(kDecodeKeys, blocks.key_end - key)});
    }
  }

 private:
  float* at(int64_t offset) const { return worker_ + offset; }
  // Row r is query r % Tq of the head r / Tq of the group.
  int64_t query(int64_t r) const { return r % call_.shape.query_length; }
  int64_t head(int64_t r) const { return which_.kv_head * call_.group() + r / call_.shape.query_length; }

  void start() {
    const Floats d;
    for (int64_t i = 0; i < call_.shape.query_length; ++i) sights_[i] = RowSight(call_, which_.batch, i);
    float* const queries = at(layout_.queries);
    for (int64_t r = 0; r < layout_.rows; r += call_.shape.query_length) {
      pack_rows(call_.query, which_.batch, head(r), 0, call_.shape.query_length, packing_,
                queries + r * packing_.stride);
    }
    for (int64_t r = 0; r < layout_.rows; ++r) {
      for (int64_t i = r * packing_.stride; i < r * packing_.stride + packing_.width; i += kLanes)
        hn::StoreU(hn::Mul(hn::LoadU(d, queries + i), hn::Set(d, call_.scale)), d, queries + i);
    }
    std::fill_n(maximum_, layout_.rows, kLowest);
    clear(sum_, layout_.rows);
    clear(output_, layout_.rows * packing_.stride);
  }

  // Calls body(rows) with the rows of a block, where they lie if they are whole vectors; unpacked if
  // many rows of queries read them.
  template <class Body>
  void with_rows(const StoredRows& stored, const KeyBlock& block, bool unpacked, Body body) const {
    const auto with = [&](const auto& all) {
      using Element = std::remove_cvref_t<decltype(*all.data)>;
      const BlockRows<Element> rows{all.row(which_.batch, block.first, which_.kv_head), all.time_stride,
                                    ahead_ * all.time_stride};
      if (packing_.head_size == packing_.width && !unpacked) return body(rows);
      unpack_block(packing_, rows, block.count, at(layout_.keys));
      body(BlockRows<float>{at(layout_.keys), packing_.stride, 0});
    };
    std::visit(with, stored);
  }

  // s_rk of all rows and keys of the block.
  void score(const KeyBlock& block) const {
    with_rows(call_.key, block, layout_.rows > kUnpackedRows, [&](auto keys) {
      in_blocks_of_rows<kDecodeRows>(0, layout_.rows, [&](auto rows, int64_t r) HWY_ATTR {
        scores_of_rows<rows()>(packing_, block.count, keys, at(layout_.queries) + r * packing_.stride,
                               at(layout_.scores) + r * kDecodeKeys);
      });
    });
  }

  void visit(const KeyBlock& block) {
    score(block);
    const int32_t* const ids = call_.options.documents;
    const bool whole = block.count == kDecodeKeys && ids == nullptr;
    bool hidden = false, seen = false, loaded = false;
    for (int64_t r = 0; r < layout_.rows; ++r) {
      const RowSight& sight = sights_[query(r)];
      const bool all = whole && sight.sees_all(block.first, block.count);
      if (!all && !loaded) load_documents(block, ids);
      loaded |= !all;
      const int64_t visible = all ? softmax<true>(block, sight, r) : softmax<false>(block, sight, r);
      hidden |= visible < block.count;
      seen |= visible > 0;
    }
    if (!seen) return;
    fade(layout_.rows, packing_, at(layout_.decay), output_);
    add_values(block, hidden);
  }

  // Of keys beyond the block -1, which no query sees; without documents 0.
  void load_documents(const KeyBlock& block, const int32_t* ids) {
    std::fill_n(documents_, kDecodeKeys, 0);
    if (ids != nullptr)
      std::copy_n(ids + which_.batch * call_.shape.key_length + block.first, block.count, documents_);
    std::fill(documents_ + block.count, documents_ + kDecodeKeys, -1);
  }

  // m' = max(m, max_j s_rj), decay = exp(m - m'), p_rj = exp(s_rj - m') in place of s_rj, l' = decay l +
  // sum_j p_rj. Returns how many keys the row sees.
  template <bool kAll>
  int64_t softmax(const KeyBlock& block, const RowSight& sight, int64_t r) {
    const Floats d;
    float* const scores = at(layout_.scores) + r * kDecodeKeys;
    const Vector before = hn::Set(d, maximum_[r]);
    const bool reshapes = call_.reshapes_scores();
    const Reshape reshape(call_.options, head(r));
    Vector m = before;
    int64_t visible = kAll ? block.count : 0;
    for (int64_t k = 0; k < block.count; k += kLanes) {
      Vector s = hn::LoadU(d, scores + k);
      if (reshapes) {
        const Integers di;
        const auto key = hn::Iota(di, static_cast<int32_t>(block.first + k));
        s = reshape(s, hn::Sub(hn::Set(di, static_cast<int32_t>(sight.position)), key));
        hn::StoreU(s, d, scores + k);
      }
      if constexpr (!kAll) {
        const FloatMask see = sight.visible_keys(block.first + k, documents_ + k);
        s = hn::IfThenElse(see, s, hn::Set(d, kLowest));
        visible += static_cast<int64_t>(hn::CountTrue(d, see));
      }
      m = hn::Max(m, s);
    }
    m = hn::MaxOfLanes(d, m);
    Vector l = hn::Zero(d);
    for (int64_t k = 0; k < block.count; k += kLanes) {
      Vector p = exp_of_nonpositive(d, hn::Sub(hn::LoadU(d, scores + k), m));
      if constexpr (!kAll) p = hn::IfThenElseZero(sight.visible_keys(block.first + k, documents_ + k), p);
      hn::StoreU(p, d, scores + k);
      l = hn::Add(l, p);
    }
    const float decay = hn::GetLane(exp_of_nonpositive(d, hn::Sub(before, m)));
    at(layout_.decay)[r] = decay;
    maximum_[r] = hn::GetLane(m);
    sum_[r] = sum_[r] * decay + hn::GetLane(hn::SumOfLanes(d, l));
    return visible;
  }

  // o_r += sum_k p_rk v_k. Where some row does not see some key, over the visible pairs only: the key's value
  // may be NaN.
  void add_values(const KeyBlock& block, bool hidden) const {
    const float* const p = at(layout_.scores);
    with_rows(call_.value, block, hidden || layout_.rows > kUnpackedRows, [&](auto values) {
      if (hidden) return add_visible(block);
      in_blocks_of_rows<kDecodeRows>(0, layout_.rows, [&](auto rows, int64_t r) HWY_ATTR {
        add_rows<rows()>(packing_, block.count, p + r * kDecodeKeys, values, output_ + r * packing_.stride);
      });
    });
  }

  // The same from unpacked values.
  void add_visible(const KeyBlock& block) const {
    product_of_visible(
        layout_.rows, packing_.width, block.count,
        [&](int64_t r, int64_t k) { return sights_[query(r)].visible(block.first + k, documents_[k]); },
        at(layout_.scores), kDecodeKeys, 1, at(layout_.keys), output_, packing_.stride);
  }

  const ForwardCall& call_;
  const DecodeLayout& layout_;
  const DecodeChunk which_;
  const Packing packing_;
  float *const worker_, *const maximum_, *const sum_, *const output_;
  int64_t ahead_ = 0;  // keys
  RowSight sights_[kDecodeQueries];
  int32_t documents_[kDecodeKeys] = {};
};

// m = max_c m_c,  l = sum_c exp(m_c - m) l_c,  o = sum_c exp(m_c - m) o_c / l over the ranges c of row r, in
// their order; the sink joins m and l. The place of the first range takes the sum.
inline void combine_row(const DecodeLayout& layout, const Packing& packing, int64_t chunk, int64_t ranges,
                        int64_t r, float sink, float* base, float* out, float* running_max,
                        float* running_sum) {
  const Floats d;
  const auto statistic = [&](int64_t offset, int64_t c) {
    return base[offset + (chunk + c) * layout.statistics + r];
  };
  const auto output = [&](int64_t c) {
    return base + layout.output + ((chunk + c) * layout.rows + r) * packing.stride;
  };
  float m = kLowest, l = 0;
  for (int64_t c = 0; c < ranges; ++c) {
    if (statistic(layout.sum, c) != 0) m = std::max(m, statistic(layout.maximum, c));
  }
  const bool seen = m != kLowest;
  if (seen) m = std::max(m, sink);
  for (int64_t c = 0; c < ranges; ++c) {
    const float sum = statistic(layout.sum, c);
    const float factor = sum == 0 ? 0.0f : std::exp(statistic(layout.maximum, c) - m);
    l += factor * sum;
    for (int64_t i = 0; i < packing.width; i += kLanes) {
      const Vector before = c == 0 ? hn::Zero(d) : hn::LoadU(d, output(0) + i);
      hn::StoreU(hn::MulAdd(hn::Set(d, factor), hn::LoadU(d, output(c) + i), before), d, output(0) + i);
    }
  }
  if (seen) l += std::exp(sink - m);
  unpack_row(packing, l == 0 ? 0.0f : 1 / l, output(0), out);
  *running_max = l == 0 ? 0.0f : m;
  *running_sum = l;
}

// Writes the results of all rows of one key/value head, whose ranges begin at `chunk`.
inline void combine_ranges(const ForwardCall& call, const DecodeLayout& layout, int64_t batch,
                           int64_t kv_head, int64_t chunk, int64_t ranges, float* base) {
  const int64_t queries = call.shape.query_length;
  for (int64_t r = 0; r < layout.rows; ++r) {
    const int64_t head = kv_head * call.group() + r / queries, i = r % queries;
    const int64_t stat = (batch * call.shape.query_heads + head) * queries + i;
    const float sink =
        call.options.sinks ? call.options.sinks[head] : -std::numeric_limits<float>::infinity();
    combine_row(layout, call.packing(), chunk, ranges, r, sink, base, call.out.row(batch, i, head),
                call.running_max + stat, call.running_sum + stat);
  }
}

inline void decode_chunk(const ForwardCall& call, const DecodeLayout& layout, int64_t chunk, float* base,
                         int worker) {
  const auto* const starts = reinterpret_cast<const int64_t*>(base + layout.starts);
  const DecodeChunk which = find_chunk(call, starts, chunk);
  Decode(call, layout, which, chunk, base, worker).run();
  if (starts[which.batch + 1] - starts[which.batch] == 1)
    combine_ranges(call, layout, which.batch, which.kv_head, chunk, 1, base);
}

// Of key/value head number `head` in (B, K), unless decode_chunk did it already.
inline void combine_head(const ForwardCall& call, const DecodeLayout& layout, int64_t head, float* base) {
  const auto* const starts = reinterpret_cast<const int64_t*>(base + layout.starts);
  const int64_t batch = head / call.shape.kv_heads, kv_head = head % call.shape.kv_heads;
  const int64_t ranges = starts[batch + 1] - starts[batch];
  if (ranges == 1) return;
  const int64_t chunk = starts[batch] * call.shape.kv_heads + kv_head * ranges;
  combine_ranges(call, layout, batch, kv_head, chunk, ranges, base);
}

}  // namespace tril::attention::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // TRIL_KERNELS_ATTENTION_DECODE_INL_H_
