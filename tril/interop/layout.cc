#include "tril/interop/layout.h"

#include <algorithm>
#include <array>
#include <set>

namespace tril {
namespace {

constexpr std::string_view kWrappers[] = {"transformer.", "model.", "module.", "_orig_mod."};

// y (columns, rows) = x (rows, columns)^T.
void transpose(int64_t rows, int64_t columns, const float* x, float* y) {
  constexpr int64_t kTile = 16;
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r) {
        for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c) y[c * rows + r] = x[r * columns + c];
      }
    }
  }
}

Shape transposed(const Shape& shape) { return {shape[1], shape[0]}; }

// Calls body(info) for each parameter of a model of this config, without memory for it.
template <class Body>
void for_each_parameter(const TransformerConfig& config, Body&& body) {
  Transformer model(config);
  model.visit("", [&](const ParameterInfo& info, Weight&) { body(info); });
}

const Weight* find_or_null(const Parameters& parameters, std::string_view name) {
  for (const Parameters::Item& item : parameters.items()) {
    if (item.info.name == name) return item.weight;
  }
  return nullptr;
}

bool all_zero(const ConstView& view) {
  return std::all_of(view.f32(), view.f32() + view.elements(), [](float x) { return x == 0; });
}

}  // namespace

std::string_view without_wrappers(std::string_view name) {
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view wrapper : kWrappers) {
      if (!name.starts_with(wrapper)) continue;
      name.remove_prefix(wrapper.size());
      again = true;
    }
  }
  return name;
}

ArraysByName arrays_by_name(const SafetensorsFile& file) {
  ArraysByName out;
  for (const NamedArray& array : file.arrays()) {
    const auto [at, is_new] = out.emplace(without_wrappers(array.name), &array);
    check_data(is_new, "{}: {} and {} are the same tensor by name; one must go", file.path().string(),
               at->second->name, array.name);
  }
  return out;
}

const NamedArray& require_array(const SafetensorsFile& file, const ArraysByName& arrays,
                                const std::string& name) {
  const auto at = arrays.find(name);
  check_data(at != arrays.end(), "{}: tensor {} is missing", file.path().string(), name);
  return *at->second;
}

ConstView require_f32(const SafetensorsFile& file, const ArraysByName& arrays, const std::string& name,
                      const Shape& shape) {
  return file.f32(require_array(file, arrays, name).name, shape);
}

Gpt2Name gpt2_name(std::string_view parameter) {
  struct Rule {
    std::string_view ours, theirs;
    bool transposed;
  };
  static constexpr std::array<Rule, 6> kInBlock = {{{"ln1.", "ln_1.", false},
                                                    {"ln2.", "ln_2.", false},
                                                    {"attention.qkv.", "attn.c_attn.", true},
                                                    {"attention.projection.", "attn.c_proj.", true},
                                                    {"mlp.hidden.", "mlp.c_fc.", true},
                                                    {"mlp.projection.", "mlp.c_proj.", true}}};
  if (parameter == "token_embedding.weight") return {"wte.weight"};
  if (parameter == "position_embedding.weight") return {"wpe.weight"};
  if (parameter.starts_with("ln_final.")) return {"ln_f." + std::string(parameter.substr(9))};
  if (parameter == "lm_head.weight") return {"lm_head.weight"};
  if (parameter.starts_with("blocks.")) {
    const size_t dot = parameter.find('.', 7);
    const std::string_view rest = parameter.substr(dot + 1);
    for (const Rule& rule : kInBlock) {
      if (!rest.starts_with(rule.ours)) continue;
      const std::string_view kind = rest.substr(rule.ours.size());
      return {fmt::format("h.{}.{}{}", parameter.substr(7, dot - 7), rule.theirs, kind),
              rule.transposed && kind == "weight"};
    }
  }
  fail(ErrorKind::kUse, "GPT-2 layout: there is no place for the parameter {}", parameter);
}

bool is_gpt2_buffer(std::string_view name) {
  return name.starts_with("h.") && (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias"));
}

TransformerConfig with_gpt2_biases(TransformerConfig config) {
  config.qkv_bias = config.projection_bias = config.mlp_bias = config.norm_bias = true;
  return config;
}

void write_gpt2_weights(const Path& path, const TransformerConfig& config, const Parameters& parameters) {
  std::vector<NamedView> arrays;
  std::vector<Tensor> zeros;  // biases that GPT-2 has and this model has not
  for_each_parameter(with_gpt2_biases(config), [&](const ParameterInfo& info) {
    const Gpt2Name theirs = gpt2_name(info.name);
    const Weight* const weight = find_or_null(parameters, info.name);
    ConstView view;
    if (weight != nullptr) {
      view = weight->value;
    } else {
      zeros.emplace_back(info.shape);
      view = zeros.back().view();
    }
    const bool head = theirs.name.starts_with("lm_head");
    arrays.push_back({head ? theirs.name : "transformer." + theirs.name, view, theirs.transposed});
  });
  write_safetensors(path, arrays, {}, /*checksum=*/true);
}

void write_tril_weights(const Path& path, const Parameters& parameters) {
  std::vector<NamedView> arrays;
  for (const Parameters::Item& item : parameters.items())
    arrays.push_back({item.info.name, item.weight->value});
  write_safetensors(path, arrays, {}, /*checksum=*/true);
}

void check_weights(const SafetensorsFile& file, const TransformerConfig& config, bool gpt2) {
  const ArraysByName arrays = arrays_by_name(file);
  std::set<std::string, std::less<>> known, optional;
  for_each_parameter(config, [&](const ParameterInfo& info) {
    const Gpt2Name theirs = gpt2 ? gpt2_name(info.name) : Gpt2Name{info.name};
    require_f32(file, arrays, theirs.name, theirs.transposed ? transposed(info.shape) : info.shape);
    known.insert(theirs.name);
  });
  if (gpt2) {
    for_each_parameter(with_gpt2_biases(config), [&](const ParameterInfo& info) {
      const std::string name = gpt2_name(info.name).name;
      if (known.contains(name) || arrays.find(name) == arrays.end()) return;
      check_data(all_zero(require_f32(file, arrays, name, info.shape)),
                 "{}: tensor {} is not zero, but config.json says the model has no such bias",
                 file.path().string(), name);
      known.insert(name);
    });
    if (config.tied_head && arrays.contains("lm_head.weight")) {
      const Shape table = {config.vocabulary, config.channels};
      const ConstView head = require_f32(file, arrays, "lm_head.weight", table);
      const ConstView tokens = require_f32(file, arrays, "wte.weight", table);
      check_data(std::equal(head.f32(), head.f32() + head.elements(), tokens.f32()),
                 "{}: lm_head.weight and wte.weight differ, but config.json says that they are tied; set "
                 "\"tie_word_embeddings\": false",
                 file.path().string());
      known.insert("lm_head.weight");
    }
  }
  for (const auto& [name, array] : arrays) {
    check_data(known.contains(name) || (gpt2 && is_gpt2_buffer(name)),
               "{}: tensor {} has no place in the model that config.json describes", file.path().string(),
               array->name);
  }
}

void read_weights(const SafetensorsFile& file, bool gpt2, const Parameters& parameters) {
  const ArraysByName arrays = arrays_by_name(file);
  for (const Parameters::Item& item : parameters.items()) {
    const Gpt2Name theirs = gpt2 ? gpt2_name(item.info.name) : Gpt2Name{item.info.name};
    float* const out = item.weight->value.f32();
    if (theirs.transposed) {
      const Shape shape = transposed(item.info.shape);
      transpose(shape[0], shape[1], require_f32(file, arrays, theirs.name, shape).f32(), out);
    } else {
      const ConstView view = require_f32(file, arrays, theirs.name, item.info.shape);
      std::copy_n(view.f32(), view.elements(), out);
    }
  }
}

}  // namespace tril
