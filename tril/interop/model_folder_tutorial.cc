// The tutorials' PyTorch state: one query, key and value matrix a head, causal masks as buffers.
#include <algorithm>
#include <set>

#include "tril/interop/layout.h"
#include "tril/interop/model_folder.h"

namespace tril {
namespace {

bool is_buffer(std::string_view name) { return name == "pos_idxs" || name.ends_with(".tril"); }

std::string block_name(int64_t layer, std::string_view rest) {
  return fmt::format("attn_blocks.{}.{}", layer, rest);
}

std::string head_weight(int64_t layer, int64_t head, std::string_view what) {
  return fmt::format("attn_blocks.{}.attn.heads.{}.{}.weight", layer, head, what);
}

int64_t dimension(const SafetensorsFile& file, const ArraysByName& arrays, const std::string& name,
                  size_t which) {
  const NamedArray& array = require_array(file, arrays, name);
  check_data(array.shape.size() == 2, "{}: tensor {} has {} dimensions, 2 are expected", file.path().string(),
             array.name, array.shape.size());
  return array.shape[which];
}

// The tutorials' name of a parameter that is one tensor there too.
std::string tutorial_name(std::string_view parameter) {
  if (parameter == "token_embedding.weight") return "token_embed.weight";
  if (parameter == "position_embedding.weight") return "position_embed.weight";
  if (parameter.starts_with("ln_final.")) return "layer_norm." + std::string(parameter.substr(9));
  std::string name(parameter);
  const auto replace = [&](std::string_view from, std::string_view to) {
    const size_t at = name.find(from);
    if (at != std::string::npos) name.replace(at, from.size(), to);
  };
  replace("blocks.", "attn_blocks.");
  replace(".attention.projection.", ".attn.proj.");
  replace(".mlp.projection.", ".mlp.proj.");
  return name;
}

class TutorialReader {
 public:
  TutorialReader(const SafetensorsFile& file, const TransformerConfig& config)
      : file_(file), arrays_(arrays_by_name(file)), config_(config) {}

  void read(const Parameters::Item& item) {
    const std::string& name = item.info.name;
    float* const out = item.weight->value.f32();
    if (name.starts_with("blocks.") && name.ends_with(".attention.qkv.weight")) {
      read_heads(std::stoll(name.substr(7)), out);
      return;
    }
    const std::string theirs = tutorial_name(name);
    if (theirs.find(".attn.proj.") != std::string::npos && !arrays_.contains(theirs)) {
      identity(item, theirs, out);
      return;
    }
    copy(theirs, item.info.shape, out);
  }

  void check_all_read() const {
    for (const auto& [name, array] : arrays_) {
      check_data(read_.contains(name) || is_buffer(name), "{}: tensor {} has no place in the model",
                 file_.path().string(), array->name);
    }
  }

 private:
  void copy(const std::string& name, const Shape& shape, float* out) {
    const ConstView view = require_f32(file_, arrays_, name, shape);
    std::copy_n(view.f32(), view.elements(), out);
    read_.insert(name);
  }

  // Rows of the fused projection: query of head 0, 1, ..., then key, then value; each (D, C).
  void read_heads(int64_t layer, float* out) {
    for (const char* what : {"query", "key", "value"}) {
      for (int64_t h = 0; h < config_.heads; ++h) {
        copy(head_weight(layer, h, what), {config_.head_size, config_.channels}, out);
        out += config_.head_size * config_.channels;
      }
    }
  }

  // Versions without an output projection: the concatenated heads are the output.
  void identity(const Parameters::Item& item, const std::string& theirs, float* out) {
    std::fill_n(out, item.info.shape.elements(), 0.0f);
    if (item.info.shape.rank() != 2) return;
    check_data(item.info.shape[0] == item.info.shape[1], "{}: tensor {} is missing", file_.path().string(),
               theirs);
    for (int64_t i = 0; i < item.info.shape[0]; ++i) out[i * item.info.shape[0] + i] = 1;
  }

  const SafetensorsFile& file_;
  ArraysByName arrays_;
  const TransformerConfig& config_;
  std::set<std::string, std::less<>> read_;
};

}  // namespace

TransformerConfig tutorial_config(const SafetensorsFile& file) {
  const ArraysByName arrays = arrays_by_name(file);
  TransformerConfig c;
  c.set_architecture("classic");
  c.vocabulary = dimension(file, arrays, "token_embed.weight", 0);
  c.channels = dimension(file, arrays, "token_embed.weight", 1);
  c.context = dimension(file, arrays, "position_embed.weight", 0);
  while (arrays.contains(block_name(c.layers, "ln1.weight"))) ++c.layers;
  while (arrays.contains(head_weight(0, c.heads, "query"))) ++c.heads;
  check_data(c.layers > 0 && c.heads > 0,
             "{}: no tensors attn_blocks.0.attn.heads.0...; not a tutorial's model", file.path().string());
  c.head_size = dimension(file, arrays, head_weight(0, 0, "query"), 0);
  c.mlp_hidden = dimension(file, arrays, block_name(0, "mlp.hidden.weight"), 0);
  try {
    return c.resolved();
  } catch (const Error& error) {
    fail(ErrorKind::kData, "{}: {}", file.path().string(), error.what());
  }
}

void load_tutorial_state(const SafetensorsFile& file, Parameters& parameters,
                         const TransformerConfig& config) {
  TutorialReader reader(file, config);
  for (const Parameters::Item& item : parameters.items()) reader.read(item);
  reader.check_all_read();
}

}  // namespace tril
