// The tutorials' PyTorch state: sizes from its tensors.
#include "tril/interop/torch_checkpoint.h"

namespace tril {
namespace {

int64_t dimension(const StoredArrays& arrays, const ArraysByName& by_name, const std::string& name,
                  int which) {
  const StoredArray& array = require_array(arrays, by_name, name);
  check_data(array.shape.rank() == 2, "{}: tensor {} has {} dimensions, 2 are expected", arrays.where,
             array.name, array.shape.rank());
  return array.shape[which];
}

std::string block_name(int64_t layer, std::string_view rest) {
  return fmt::format("attn_blocks.{}.{}", layer, rest);
}

std::string query_name(int64_t head) {
  return block_name(0, fmt::format("attn.heads.{}.query.weight", head));
}

}  // namespace

TransformerConfig tutorial_config(const StoredArrays& arrays) {
  const ArraysByName by_name = arrays_by_name(arrays);
  TransformerConfig c;
  c.set_architecture("classic");
  c.vocabulary = dimension(arrays, by_name, "token_embed.weight", 0);
  c.channels = dimension(arrays, by_name, "token_embed.weight", 1);
  c.context = dimension(arrays, by_name, "position_embed.weight", 0);
  while (by_name.contains(block_name(c.layers, "ln1.weight"))) ++c.layers;
  while (by_name.contains(query_name(c.heads))) ++c.heads;
  check_data(c.layers > 0 && c.heads > 0,
             "{}: no tensors attn_blocks.0.attn.heads.0...; not a tutorial's model", arrays.where);
  c.head_size = dimension(arrays, by_name, query_name(0), 0);
  c.mlp_hidden = dimension(arrays, by_name, block_name(0, "mlp.hidden.weight"), 0);
  return resolved_of_file(c, arrays.where);
}

}  // namespace tril
