#include "tril/kernels/attention_decode.h"

namespace tril::attention {

VisibleBlocks::VisibleBlocks(const Problem& problem, int64_t batch) {
  const AttentionOptions& o = problem.options;
  const int64_t keys = problem.keys(batch), offset = problem.offset(batch);
  const int64_t lowest = offset + problem.padding(batch), highest = offset + problem.shape.query_length - 1;
  const int64_t window = problem.window();
  const int64_t seen_end = o.causal ? std::clamp<int64_t>(highest + 1, 0, keys) : keys;
  const int64_t seen_first = window > 0 ? std::clamp<int64_t>(lowest - window + 1, 0, seen_end) : 0;
  const int64_t prefix_end = std::clamp<int64_t>(problem.prefix(batch), 0, keys);
  prefix = divide_up(prefix_end, kDecodeKeys);
  first = std::max(seen_first / kDecodeKeys, prefix);
  end = std::max(divide_up(seen_end, kDecodeKeys), first);
  key_end = std::max(seen_end, prefix_end);
}

DecodeLayout::DecodeLayout(const Problem& p, int threads) {
  Cursor c;
  const int64_t stride = p.packing().stride, heads = checked_multiply(p.shape.batch, p.shape.kv_heads);
  const int64_t chunks = checked_multiply(heads, divide_up(p.shape.key_length, kDecodeKeys * kDecodeRange));
  rows = p.shape.query_length * p.group();
  statistics = round_up(rows, kPad);
  starts = c.take(p.shape.batch + 1, sizeof(int64_t) / sizeof(float));
  for (int64_t* offset : {&maximum, &sum}) *offset = c.take(chunks, statistics);
  output = c.take(chunks, checked_multiply(rows, stride));
  workers = c.used;
  Cursor w;
  queries = w.take(rows, stride);
  keys = w.take(kDecodeKeys, stride);
  scores = w.take(rows, kDecodeKeys);
  decay = w.take(rows);
  worker_size = w.used;
  c.take(worker_size, threads);
  size = c.used + kPad;  // room for aligned()
}

int64_t decode_chunks(const Problem& problem, int64_t* starts) {
  int64_t ranges = 0;
  for (int64_t b = 0; b < problem.shape.batch; ++b) {
    if (starts != nullptr) starts[b] = ranges;
    ranges += VisibleBlocks(problem, b).ranges();
  }
  if (starts != nullptr) starts[problem.shape.batch] = ranges;
  return ranges * problem.shape.kv_heads;
}

DecodeChunk find_chunk(const Problem& problem, const int64_t* starts, int64_t chunk) {
  const int64_t heads = problem.shape.kv_heads;
  const int64_t b = std::upper_bound(starts, starts + problem.shape.batch, chunk / heads) - starts - 1;
  const int64_t ranges = starts[b + 1] - starts[b], within = chunk - starts[b] * heads;
  return {b, within / ranges, within % ranges};
}

}  // namespace tril::attention
