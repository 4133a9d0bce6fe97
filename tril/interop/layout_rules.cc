#include "tril/interop/layout_rules.h"

#include <algorithm>

namespace tril {

BlockName block_name(std::string_view parameter) {
  constexpr std::string_view kBlocks = "blocks.";
  if (!parameter.starts_with(kBlocks)) return {.rest = parameter};
  const size_t dot = parameter.find('.', kBlocks.size());
  return {parameter.substr(kBlocks.size(), dot - kBlocks.size()), parameter.substr(dot + 1)};
}

bool is_query_key_norm(const BlockName& name) {
  return name.rest.starts_with("attention.query_norm.") || name.rest.starts_with("attention.key_norm.");
}

ArrayPart renamed(const ParameterInfo& info, std::string_view layout, std::string_view block,
                  std::span<const LayoutRule> in_block, std::span<const LayoutRule> around) {
  const BlockName name = block_name(info.name);
  const std::span<const LayoutRule> rules = name.inside() ? in_block : around;
  const auto rule = std::find_if(rules.begin(), rules.end(),
                                 [&](const LayoutRule& r) { return name.rest.starts_with(r.ours); });
  check_use(rule != rules.end(), "{} layout: there is no place for the parameter {}", layout, info.name);
  const std::string theirs = fmt::format("{}{}", rule->theirs, name.rest.substr(rule->ours.size()));
  return {.array = name.inside() ? fmt::format("{}.{}.{}", block, name.layer, theirs) : theirs,
          .rows = info.shape[0],
          .transposed = rule->transposed && info.shape.rank() == 2};
}

HeadOrder order_there(const TransformerConfig& config, bool interleaved) {
  if (config.attention.positions != Positions::kRope || config.attention.rope.interleaved == interleaved)
    return HeadOrder::kSame;
  return interleaved ? HeadOrder::kInterleavedThere : HeadOrder::kHalvesThere;
}

std::vector<ArrayPart> split_query_key_value(const QueryKeyRows& rows,
                                             const std::function<std::string(char)>& name) {
  const int64_t query = rows.heads * rows.head_size, key = rows.kv_heads * rows.head_size;
  return {{.array = name('q'), .rows = query, .order = rows.order, .heads = rows.heads},
          {.array = name('k'), .rows = key, .order = rows.order, .heads = rows.kv_heads},
          {.array = name('v'), .rows = key}};
}

}  // namespace tril
