#include "tril/kernels/attention.h"

#include <cmath>
#include <limits>

#include "tril/base/error.h"
#include "tril/kernels/attention_decode.h"
#include "tril/kernels/attention_rounds.h"

namespace tril {
namespace attention {

Problem::Problem(const AttentionShape& s, const AttentionOptions& o)
    : shape(s),
      options(o),
      scale(o.scale != 0 ? o.scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(s.head_size)))) {}

int64_t Problem::key_end(int64_t batch, int64_t query_end) const {
  if (!options.causal) return keys(batch);
  return std::clamp<int64_t>(std::max(query_end + offset(batch), prefix(batch)), 0, keys(batch));
}

int64_t Problem::block() const {
  constexpr int64_t kChunks = 32;
  const int64_t spread = query_tiles() * shape.batch * shape.kv_heads / kChunks;
  return std::max<int64_t>(1, std::min({spread, kForwardBlock / group(), query_tiles()}));
}

bool Problem::is_short() const {
  const AttentionShape& s = shape;
  const AttentionOptions& o = options;
  const bool narrow = s.head_size == 4 || s.head_size == 8 || s.head_size == 16;
  const bool plain = o.causal && o.query_offset == 0 && o.window == 0 && o.dropout == 0 && !o.lengths &&
                     !o.prefix && !o.documents && !o.sinks && !reshapes_scores();
  return narrow && plain && group() == 1 && s.query_length == s.key_length && s.key_length <= kShort;
}

int64_t Problem::chunk_heads() const {
  if (is_short()) return 8;
  constexpr int64_t kChunks = 64;
  const bool brief = group() == 1 && std::max(query_tiles(), key_tiles()) <= kForwardBlock;
  return brief ? std::clamp<int64_t>(shape.batch * shape.kv_heads / kChunks, 1, 16) : 1;
}

bool Problem::asks_ahead() const {
  constexpr int64_t kFloats = int64_t{1} << 17;
  const int64_t rows = shape.query_heads * shape.query_length + 2 * shape.kv_heads * shape.key_length;
  return chunk_heads() > 1 && shape.batch * rows * shape.head_size > kFloats;
}

Tile look(const Problem& problem, int64_t batch, int64_t query_tile, int64_t key_tile) {
  const AttentionShape& s = problem.shape;
  Tile t;
  t.query = query_tile * kTile;
  t.queries = std::min(kTile, s.query_length - t.query);
  t.key = key_tile * kTile;
  t.keys = std::min(kTile, problem.keys(batch) - t.key);
  const AttentionOptions& o = problem.options;
  t.position = t.query + problem.offset(batch) - t.key;
  t.last = o.causal ? std::clamp(t.position, -kTile, kTile) : kTile;
  const int64_t window = problem.window();
  t.before = window > 0 ? std::clamp(t.position - window, -kTile - 1, kTile) : -kTile - 1;
  t.prefix = std::clamp<int64_t>(problem.prefix(batch) - t.key, 0, t.keys);
  const bool none = t.queries + t.last <= 0 || t.before >= t.keys - 1;
  const bool all = t.last >= t.keys - 1 && t.queries - 1 + t.before < 0;
  t.sight = t.prefix == t.keys || all ? Sight::kAll : none && t.prefix == 0 ? Sight::kNone : Sight::kPart;
  t.by_document = false;
  t.key_documents = nullptr;
  if (!o.documents || t.sight == Sight::kNone) return t;

  // Ranges of ids that do not meet: nothing is visible. One id on both sides: documents hide nothing.
  const int32_t* documents = o.documents + batch * s.key_length;
  t.key_documents = documents + t.key;
  const int64_t padding = std::clamp<int64_t>(problem.padding(batch) - t.query, 0, t.queries);
  const int32_t* const own = documents + t.query + problem.offset(batch);
  std::fill_n(t.query_documents, padding, -1);
  std::fill(std::copy(own + padding, own + t.queries, t.query_documents + padding), t.query_documents + kTile,
            0);
  const auto [query_low, query_high] = std::minmax_element(t.query_documents, t.query_documents + t.queries);
  const auto [key_low, key_high] = std::minmax_element(t.key_documents, t.key_documents + t.keys);
  if (*query_low > *key_high || *key_low > *query_high || *query_high < 0 || *key_high < 0) {
    t.sight = Sight::kNone;
  } else if (*query_low != *query_high || *key_low != *key_high) {
    t.sight = Sight::kPart;
    t.by_document = true;
  }
  return t;
}

ForwardLayout::ForwardLayout(const Problem& p) {
  Cursor c;
  const Packing packing = p.packing();
  const int64_t slots = p.block() * p.group();
  for (int64_t* offset : {&keys, &values, &rows}) *offset = c.take(kTile, packing.stride);
  scores = c.take(kTile, kTileStride);
  decay = c.take(kTile);
  queries = c.take(slots, packing.width * kTileStride);
  output = c.take(slots, kTile * packing.stride);
  for (int64_t* offset : {&maximum, &sum}) *offset = c.take(slots, kTile);
  size = c.used + kPad;  // room for aligned()
}

BackwardLayout::BackwardLayout(const Problem& p) {
  Cursor c;
  const Packing packing = p.packing();
  const int64_t query_rows = checked_multiply(p.query_tiles(), kTile);
  for (int64_t* offset : {&keys, &values, &dkeys, &dvalues})
    *offset = c.take(p.shape.key_length, packing.stride);
  for (int64_t* offset : {&queries, &douts, &dqueries}) *offset = c.take(query_rows, packing.stride);
  for (int64_t* offset : {&queries_across, &douts_across}) {
    *offset = c.take(p.query_tiles(), packing.width * kTileStride);
  }
  keys_poison = c.take(p.key_tiles());
  for (int64_t* offset : {&queries_poison, &douts_poison}) *offset = c.take(p.query_tiles());
  for (int64_t* offset : {&maximum, &inverse_sum, &delta}) *offset = c.take(query_rows);
  size = c.used + kPad;  // room for aligned()
}

BackwardTiles::BackwardTiles(const Packing& packing) {
  Cursor c;
  outs = c.take(kTile, packing.stride);
  outs_across = c.take(packing.width, kTileStride);
  for (int64_t* offset : {&weights, &dscores, &keep, &slopes}) *offset = c.take(kTile, kTileStride);
  size = c.used + kPad;  // room for aligned()
}

}  // namespace attention

void check_attention(const AttentionShape& s, const AttentionOptions& o) {
  check_use(s.batch > 0 && s.query_heads > 0 && s.kv_heads > 0 && s.query_length > 0 && s.key_length > 0 &&
                s.head_size > 0,
            "attention: every size must be positive, but batch = {}, query_heads = {}, kv_heads = {}, "
            "query_length = {}, key_length = {}, head_size = {}",
            s.batch, s.query_heads, s.kv_heads, s.query_length, s.key_length, s.head_size);
  check_use(s.query_heads % s.kv_heads == 0,
            "attention: query_heads = {} is not a multiple of kv_heads = {}; every key/value head serves the "
            "same number of query heads",
            s.query_heads, s.kv_heads);
  constexpr int64_t kMaxLength = std::numeric_limits<int32_t>::max() - attention::kTile;
  check_use(s.query_length <= kMaxLength && s.key_length <= kMaxLength,
            "attention: query_length = {} and key_length = {} must not exceed {}", s.query_length,
            s.key_length, kMaxLength);
  constexpr int64_t kMaxHeadSize = 1 << 16;
  check_use(s.head_size <= kMaxHeadSize, "attention: head_size = {} must not exceed {}", s.head_size,
            kMaxHeadSize);
  const int64_t heads = checked_multiply(s.batch, s.query_heads);
  check_use(heads <= std::numeric_limits<uint32_t>::max(),
            "attention: batch * query_heads = {} * {} does not fit in 32 bits; use a smaller batch", s.batch,
            s.query_heads);
  checked_multiply(checked_multiply(heads, std::max(s.query_length, s.key_length)), s.head_size);
  check_use(std::isfinite(o.scale), "attention: scale = {} is not finite; 0 means 1 / sqrt(head_size)",
            o.scale);
  check_use(o.window >= 0 && (o.window == 0 || o.causal),
            "attention: window = {} with causal = {}; a window needs causal, 0 means none", o.window,
            o.causal);
  check_use(o.softcap == 0 || (o.softcap >= 1e-30f && o.softcap <= 1e30f),
            "attention: softcap = {} must lie between 1e-30 and 1e30, or be 0 for none", o.softcap);
  check_use(o.dropout >= 0 && o.dropout < 1, "attention: dropout = {} is outside [0, 1)", o.dropout);
  const int64_t room = kMaxLength - std::max(s.query_length, s.key_length);
  check_use(o.query_offset >= -room && o.query_offset <= room,
            "attention: query_offset = {} must lie between {} and {}", o.query_offset, -room, room);
  check_use(!o.lengths || o.query_offset == 0,
            "attention: query_offset = {} with lengths, which say where the queries stand; it must be 0",
            o.query_offset);
  for (int64_t b = 0; o.lengths && b < s.batch; ++b) {
    check_use(o.lengths[b] >= 0 && o.lengths[b] <= s.key_length,
              "attention: lengths[{}] = {} must lie between 0 and key_length = {}", b, o.lengths[b],
              s.key_length);
  }
  check_use(
      !o.documents || o.lengths || (o.query_offset >= 0 && s.query_length <= s.key_length - o.query_offset),
      "attention: with documents every query needs its own id among the keys, but query_offset = {} and "
      "query_length = {} do not fit in key_length = {}",
      o.query_offset, s.query_length, s.key_length);
}

int64_t attention_forward_workspace(const AttentionShape& shape, int threads) {
  const attention::Problem problem(shape, {});
  const int64_t tiles = checked_multiply(attention::ForwardLayout(problem).size, threads);
  if (!attention::decodes(shape, {})) return tiles;
  return std::max(tiles, attention::DecodeLayout(problem, threads).size);
}

int64_t attention_workspace(const AttentionShape& shape, int threads) {
  return std::max(attention_forward_workspace(shape, threads),
                  attention::BackwardSpace(attention::Problem(shape, {}), threads).size());
}

}  // namespace tril
