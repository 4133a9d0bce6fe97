#include "cli/plan_table.h"

#include <algorithm>

#include "cli/format.h"
#include "tril/nn/session.h"

namespace tril::cli {
namespace {

int64_t bytes_of(std::initializer_list<View> views) {
  int64_t bytes = 0;
  for (const View& view : views)
    if (view) bytes += dtype_bytes(view.dtype, view.elements());
  return bytes;
}

}  // namespace

KeptTable kept_table(const TransformerConfig& given, const TrainOptions& o) {
  const TransformerConfig c = given.resolved();
  TransformerConfig one = c;
  one.layers = 1;
  const Transformer model(one);
  // Everything of one layer, whether it is kept or not.
  Arena arena = Arena::dry();
  const Transformer::State state = model.plan(arena, o.batch, c.context);
  const TransformerBlock::State& block = state.blocks[0];
  const Checkpointing level = checkpointing_of(o);
  const bool gated = is_gated(c.activation), plain = level == Checkpointing::kNone;
  const int64_t stream = bytes_of({state.streams[0]}), hidden = bytes_of({block.mlp.hidden, block.mlp.gate});
  const int64_t map = checked_multiply(checked_multiply(o.batch * c.heads, c.context), 4 * c.context);

  KeptTable table;
  const bool block_level = level == Checkpointing::kBlock;
  // Kept for each layer; with block checkpointing once for all, and filled again.
  const auto kept = [&](const char* what, const std::string& shape, int64_t bytes) {
    table.rows.push_back(
        {what, shape, bytes, block_level ? "from the stream before the block" : "kept", !block_level});
    (block_level ? table.shared_bytes : table.layer_bytes) += bytes;
  };
  const auto again = [&](const char* what, const std::string& shape, int64_t bytes, const char* how) {
    table.rows.push_back({what, shape, bytes, how, false});
  };
  table.rows.push_back({"stream before the block", "(N, C)", stream, "kept", true});
  table.layer_bytes = stream;
  kept("norm statistics", "4 (N)",
       bytes_of({block.ln1.mean, block.ln1.rstd, block.ln2.mean, block.ln2.rstd}));
  again("normed streams", "2 (N, C)", 2 * stream, "from stream and statistics");
  kept("query, key, value", "(N, (H+2K) D)", bytes_of({block.attention.qkv}));
  if (c.attention.qk_norm || c.attention.positions == Positions::kRope)
    again("turned or normed q, k", "(N, (H+K) D)",
          bytes_of({block.attention.qkv}) * (c.heads + c.kv_heads) / (c.heads + 2 * c.kv_heads),
          "from query and key");
  again("attention weights", "(B, H, T, T)", map, "tile by tile, from query and key");
  kept("softmax's max and sum", "2 (B, H, T)",
       bytes_of({block.attention.running_max, block.attention.running_sum}));
  kept("attention output", "(N, H D)", bytes_of({block.attention.out}));
  kept("stream after attention", "(N, C)", bytes_of({block.middle}));
  if (plain)
    kept(gated ? "MLP hidden and gate" : "MLP hidden", gated ? "2 (N, F)" : "(N, F)", hidden);
  else
    again(gated ? "MLP hidden and gate" : "MLP hidden", gated ? "2 (N, F)" : "(N, F)", hidden,
          gated ? "two products of the normed stream" : "a product of the normed stream");
  again("MLP activation", "(N, F)", bytes_of({block.mlp.hidden}), "in the product that needs it");
  if (c.dropout > 0) again("dropout masks", "2 (N, C)", 2 * stream, "from their counters");
  return table;
}

std::string kept_text(const KeptTable& table, int64_t layers) {
  const auto bytes = [](int64_t value) { return format_bytes(static_cast<double>(value)); };
  std::string text =
      fmt::format("{:<24} {:<15} {:>9}  {}\n", "of each layer", "shape", "bytes", "in backward");
  for (const KeptRow& row : table.rows)
    text += fmt::format("{:<24} {:<15} {:>9}  {}\n", row.what, row.shape, bytes(row.bytes),
                        row.kept ? row.how : "again, " + row.how);
  text += fmt::format("kept: {} of each layer, {} of {}", bytes(table.layer_bytes),
                      bytes(checked_multiply(layers, table.layer_bytes)), layers);
  if (table.shared_bytes > 0)
    text += fmt::format("; {} once, for the layer at work", bytes(table.shared_bytes));
  return text + "\n";
}

}  // namespace tril::cli
