// How layouts rename parameters. Used by the sources of layouts only.
#pragma once

#include <span>

#include "tril/interop/layout.h"

namespace tril {

inline constexpr std::string_view kQkvPrefix = "attention.qkv.";

struct LayoutRule {
  std::string_view ours, theirs;  // beginnings of names
  bool transposed = false;
};

// "blocks.3.ln1.weight" -> "3" and "ln1.weight"; what belongs to no block is `rest` alone.
struct BlockName {
  std::string_view layer, rest;
  bool inside() const { return !layer.empty(); }
};
BlockName block_name(std::string_view parameter);
bool is_query_key_norm(const BlockName& name);

// A parameter that is one array: named by the rules for what is in a block, "<block>.3.<name>", or for what
// is around the blocks. Throws kUse naming the layout for parameters without a rule.
ArrayPart renamed(const ParameterInfo& info, std::string_view layout, std::string_view block,
                  std::span<const LayoutRule> in_block, std::span<const LayoutRule> around);

// The fused projection as three arrays, the rows of the queries' and keys' in an order of their own.
struct QueryKeyRows {
  int64_t heads = 0, kv_heads = 0, head_size = 0;
  HeadOrder order = HeadOrder::kSame;
};
// name('q'), name('k') and name('v') name them.
std::vector<ArrayPart> split_query_key_value(const QueryKeyRows& rows,
                                             const std::function<std::string(char)>& name);

}  // namespace tril
