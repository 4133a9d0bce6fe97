#include "tril/interop/llama2_c.h"

#include <cstdlib>
#include <optional>

#include "tril/interop/flat_file.h"
#include "tril/interop/llama2_c_format.h"

namespace tril {
namespace {

struct Header {
  TransformerConfig config;
  int version = 0;
  int64_t group = 0;  // of version 2
  size_t bytes = kLlama2COldHeader;
};

Header read_header(std::span<const std::byte> file, const std::string& where) {
  check_data(file.size() >= kLlama2COldHeader,
             "{}: {} bytes are too few for a model of llama2.c: get it again", where, file.size());
  Header out;
  size_t at = 0;
  if (number_at<uint32_t>(file, 0) == kLlama2CMagic) {
    check_data(file.size() >= kLlama2CHeader,
               "{}: {} bytes are too few for a model of llama2.c: get it again", where, file.size());
    out.version = number_at<int32_t>(file, 4);
    check_data(out.version == 1 || out.version == 2,
               "{}: version {} of llama2.c's model files; 0, 1 and 2 are read", where, out.version);
    out.bytes = kLlama2CHeader;
    at = 8;
  }
  const auto size = [&](size_t index) -> int64_t {
    return number_at<int32_t>(file, at + index * sizeof(int32_t));
  };
  TransformerConfig& c = out.config;
  c.set_architecture("llama");
  c.channels = size(0);
  c.mlp_hidden = size(1);
  c.layers = size(2);
  c.heads = size(3);
  c.kv_heads = size(4);
  c.vocabulary = out.version == 0 ? std::abs(size(5)) : size(5);
  c.context = size(6);
  const size_t flag = at + kLlama2COldHeader;
  c.tied_head = out.version == 0 ? size(5) > 0 : number_at<uint8_t>(file, flag) != 0;
  if (out.version == 2) {
    out.group = number_at<int32_t>(file, flag + 1);
    check_data(out.group >= 1, "{}: groups of {} numbers; the file is damaged: get it again", where,
               out.group);
  }
  check_data(c.kv_heads > 0 && c.mlp_hidden > 0 && c.heads > 0 && c.channels % c.heads == 0,
             "{}: {} channels, {} hidden, {} heads, {} key/value heads; no sizes of a model of llama2.c: the "
             "file is damaged or another's",
             where, c.channels, c.mlp_hidden, c.heads, c.kv_heads);
  c = resolved_of_file(c, where);
  return out;
}

// Floats of groups of int8: `count` times the values, then a scale a group.
std::shared_ptr<const Tensor> take_groups(FlatFile& file, const Llama2CKind& kind, int64_t count,
                                          int64_t group, const std::string& where) {
  const int64_t elements = kind.rows * kind.columns;
  check_data(elements % group == 0,
             "{}: {} of {} x {} cannot be cut into groups of {}; the file is damaged: get it again", where,
             kind.name, kind.rows, kind.columns, group);
  struct Place {
    const std::byte *values, *scales;
  };
  std::vector<Place> places;
  for (int64_t i = 0; i < count; ++i)
    places.push_back(
        {file.take(1, kind.rows, kind.columns, 1), file.take(1, elements / group, 1, sizeof(float))});
  auto out = std::make_shared<Tensor>(Shape{count, elements});
  float* to = out->f32();
  for (const Place& place : places) {
    for (int64_t g = 0; g < elements / group; ++g) {
      float scale = 0;
      std::memcpy(&scale, place.scales + g * static_cast<int64_t>(sizeof scale), sizeof scale);
      for (int64_t i = 0; i < group; ++i)
        *to++ = static_cast<float>(static_cast<int8_t>(place.values[g * group + i])) * scale;
    }
  }
  return out;
}

StoredArrays take_arrays(FlatFile& file, const Header& header, const std::string& where) {
  StoredArrays out{.where = where};
  const TransformerConfig& c = header.config;
  for (const Llama2CKind& kind : llama2_c_kinds(c, header.version)) {
    if (header.version == 0 && std::string_view(kind.name) == "lm_head.weight")
      file.take(2, c.context, c.head_size / 2, sizeof(float));  // cosines and sines
    const int64_t count = kind.layered ? c.layers : 1, size = kind.rows * kind.columns;
    const std::byte* data = nullptr;
    if (header.version == 2 && !kind.is_vector()) {
      auto floats = take_groups(file, kind, count, header.group, where);
      data = floats->view().data;
      out.owners.push_back(std::move(floats));
    } else {
      data = file.take(count, kind.rows, kind.columns, sizeof(float));
    }
    for (int64_t i = 0; i < count; ++i, data += size * static_cast<int64_t>(sizeof(float)))
      out.arrays.push_back({.name = kind.layered ? fmt::format("layers.{}.{}", i, kind.name) : kind.name,
                            .shape = kind.is_vector() ? Shape{kind.rows} : Shape{kind.rows, kind.columns},
                            .data = data});
  }
  if (header.version == 0 && c.tied_head) file.take(2, c.context, c.head_size / 2, sizeof(float));
  file.expect_end();
  return out;
}

std::unique_ptr<Tokenizer> tokenizer_beside(const Path& path, int64_t vocabulary) {
  for (const std::string& name : {fmt::format("tok{}.bin", vocabulary), std::string("tokenizer.bin")}) {
    const Path beside = path.parent_path() / name;
    std::error_code ignored;
    if (std::filesystem::is_regular_file(beside, ignored))
      return std::make_unique<Tokenizer>(Tokenizer::load(beside));
  }
  return nullptr;
}

}  // namespace

std::vector<Llama2CKind> llama2_c_kinds(const TransformerConfig& c, int version) {
  const int64_t n = c.channels, q = c.heads * c.head_size, k = c.kv_heads * c.head_size, f = c.mlp_hidden;
  const Llama2CKind tokens = {"embed_tokens.weight", false, c.vocabulary, n},
                    norm = {"norm.weight", false, n}, first = {"input_layernorm.weight", true, n},
                    second = {"post_attention_layernorm.weight", true, n},
                    attention[] = {{"self_attn.q_proj.weight", true, q, n},
                                   {"self_attn.k_proj.weight", true, k, n},
                                   {"self_attn.v_proj.weight", true, k, n},
                                   {"self_attn.o_proj.weight", true, n, q}},
                    mlp[] = {{"mlp.gate_proj.weight", true, f, n},
                             {"mlp.down_proj.weight", true, n, f},
                             {"mlp.up_proj.weight", true, f, n}};
  std::vector<Llama2CKind> out;
  const auto add = [&](std::span<const Llama2CKind> kinds) {
    out.insert(out.end(), kinds.begin(), kinds.end());
  };
  if (version == 0) {
    out = {tokens, first};
    add(attention);
    out.push_back(second);
    add(mlp);
    out.push_back(norm);
  } else {
    out = {first, second, norm, tokens};
    add(attention);
    add(mlp);
  }
  if (!c.tied_head) out.push_back({"lm_head.weight", false, c.vocabulary, n});
  return out;
}

bool is_llama2_c_file(const Path& path) {
  const MappedFile file(path);
  if (file.bytes().size() < kLlama2COldHeader) return false;
  if (number_at<uint32_t>(file.bytes(), 0) == kLlama2CMagic) return true;
  try {
    const Header header = read_header(file.bytes(), "");
    FlatFile arrays(file.bytes(), header.bytes, "");
    take_arrays(arrays, header, "");
    return true;
  } catch (const Error&) {
    return false;
  }
}

StoredModel open_llama2_c_model(const Path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string where = printable(path.native(), 4096);
  const Header header = read_header(file->bytes(), where);
  FlatFile arrays(file->bytes(), header.bytes, where);
  StoredModel out;
  out.config = header.config;
  out.arrays = take_arrays(arrays, header, where);
  out.arrays.owners.push_back(file);
  out.layout = llama_layout(out.config, /*interleaved=*/true);
  out.tokenizer = tokenizer_beside(path, out.config.vocabulary);
  return out;
}

}  // namespace tril
