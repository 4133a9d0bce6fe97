#include <algorithm>
#include <cmath>

#include "tril/base/bytes.h"
#include "tril/base/printable.h"
#include "tril/interop/llama2_c.h"
#include "tril/interop/llama2_c_format.h"

namespace tril {
namespace {

constexpr int64_t kGroup = 64;  // as export.py asks for

void check_expressible(const TransformerConfig& c) {
  const auto refuse_unless = [](bool ok, const char* what) {
    check_use(
        ok, "llama2.c computes only models of which this holds: {}; write a folder with safetensors, or GGUF",
        what);
  };
  const AttentionVariants& a = c.attention;
  refuse_unless(c.norm.kind == NormKind::kRms && !c.norm_bias, "it has RMS norms without bias");
  refuse_unless(c.norm.epsilon == 1e-5f, "its RMS norms have the epsilon 1e-5");
  refuse_unless(a.positions == Positions::kRope, "it has rotary positions");
  refuse_unless(a.rope.base == 10000 && a.rope.scaling == RopeScaling::kNone &&
                    a.rope.attention_factor <= 1 && (a.rope.size == 0 || a.rope.size == c.head_size),
                "its rotary positions have the base 10000, no scaling, and turn whole heads");
  refuse_unless(c.activation == Activation::kSwiGlu, "its MLP is SwiGLU");
  refuse_unless(!c.qkv_bias && !c.projection_bias && !c.mlp_bias && !c.lm_head_bias, "it has no biases");
  refuse_unless(c.head_size * c.heads == c.channels, "a head has channels / heads features");
  refuse_unless(c.scale == 0 || c.scale == 1.0f / std::sqrt(static_cast<float>(c.head_size)),
                "its scores are divided by the root of the head size");
  refuse_unless(a.window == 0 && a.softcap == 0 && !a.qk_norm && !a.sinks && c.logit_softcap == 0 &&
                    !c.parallel_residual,
                "it has no window, softcap, QK-norm, sinks or parallel residual");
  for (const int64_t size : {c.channels, c.mlp_hidden, c.vocabulary, c.context})
    refuse_unless(size <= INT32_MAX, "its sizes are 32-bit numbers");
}

std::string header_of(const TransformerConfig& c, Llama2CVersion version, int64_t group) {
  std::string out;
  if (version != Llama2CVersion::kV0) {
    append_number(out, kLlama2CMagic);
    append_number(out, version == Llama2CVersion::kV1 ? 1 : 2);
  }
  const int64_t vocabulary = version == Llama2CVersion::kV0 && !c.tied_head ? -c.vocabulary : c.vocabulary;
  for (const int64_t size : {c.channels, c.mlp_hidden, c.layers, c.heads, c.kv_heads, vocabulary, c.context})
    append_number(out, static_cast<int32_t>(size));
  if (version == Llama2CVersion::kV0) return out;
  append_number(out, static_cast<uint8_t>(c.tied_head));
  if (version == Llama2CVersion::kV2) append_number(out, static_cast<int32_t>(group));
  out.resize(kLlama2CHeader, '\0');
  return out;
}

// Of groups of `group`: scale = max|x| / 127, value = round(x / scale), of two near ones the even one.
void write_groups(AtomicFile& file, const StreamedArray& array, int64_t group) {
  const int64_t elements = array.shape.elements();
  std::vector<float> x(static_cast<size_t>(elements)), scales;
  array.read(0, array.shape[0], x.data());
  std::vector<int8_t> values(x.size());
  for (size_t begin = 0; begin < x.size(); begin += static_cast<size_t>(group)) {
    float most = 0;
    for (size_t i = begin; i < begin + static_cast<size_t>(group); ++i) {
      if (!std::isfinite(x[i]))
        fail(ErrorKind::kNumerics, "tensor {}: a weight is {}, which int8 cannot hold", array.name, x[i]);
      most = std::max(most, std::abs(x[i]));
    }
    const float scale = most / 127;
    scales.push_back(scale);
    for (size_t i = begin; i < begin + static_cast<size_t>(group); ++i)
      values[i] =
          scale == 0 ? 0 : static_cast<int8_t>(std::clamp(std::nearbyint(x[i] / scale), -127.0f, 127.0f));
  }
  file.write(std::as_bytes(std::span(values)));
  file.write(std::as_bytes(std::span(scales)));
}

// Cosines, then sines, of position t and pair i: t / 10000^(2i/D). Readers of today skip them.
void write_angles(AtomicFile& file, const TransformerConfig& c) {
  for (const bool cosine : {true, false}) {
    std::vector<float> row(static_cast<size_t>(c.head_size / 2));
    for (int64_t t = 0; t < c.context; ++t) {
      for (size_t i = 0; i < row.size(); ++i) {
        const double angle = static_cast<double>(t) * std::pow(10000.0, -2.0 * static_cast<double>(i) /
                                                                            static_cast<double>(c.head_size));
        row[i] = static_cast<float>(cosine ? std::cos(angle) : std::sin(angle));
      }
      file.write(std::as_bytes(std::span(row)));
    }
  }
}

}  // namespace

Path llama2_c_tokenizer(const Path& path) { return path.parent_path() / "tokenizer.bin"; }

void write_llama2_c(const Path& path, Llama2CVersion version, const TransformerConfig& config,
                    const ReadRows& rows, const Tokenizer* tokenizer) {
  const TransformerConfig c = config.resolved();
  check_expressible(c);
  check_use(tokenizer == nullptr || tokenizer->vocabulary() == c.vocabulary,
            "llama2.c wants as many tokens as the model has rows: the tokenizer has {}, the model {}; write "
            "the model without the tokenizer",
            tokenizer == nullptr ? 0 : tokenizer->vocabulary(), c.vocabulary);
  int64_t group = kGroup;
  while (c.channels % group != 0 || c.mlp_hidden % group != 0) group /= 2;
  std::map<std::string, StreamedArray, std::less<>> arrays;
  for (StreamedArray& array : arrays_to_write(llama_layout(c, /*interleaved=*/true), rows))
    arrays.emplace(without_wrappers(array.name), std::move(array));
  const int number = version == Llama2CVersion::kV0 ? 0 : version == Llama2CVersion::kV1 ? 1 : 2;
  const std::vector<Llama2CKind> kinds = llama2_c_kinds(c, number);
  AtomicFile file(path);
  file.write(header_of(c, version, group));
  for (const Llama2CKind& kind : kinds) {
    if (number == 0 && std::string_view(kind.name) == "lm_head.weight") write_angles(file, c);
    for (int64_t layer = 0; layer < (kind.layered ? c.layers : 1); ++layer) {
      const StreamedArray& array =
          arrays.at(kind.layered ? fmt::format("layers.{}.{}", layer, kind.name) : kind.name);
      if (number == 2 && !kind.is_vector())
        write_groups(file, array, group);
      else
        for_each_piece(array, [&](std::span<const std::byte> bytes) { file.write(bytes); });
    }
  }
  if (number == 0 && c.tied_head) write_angles(file, c);
  file.commit();
  if (tokenizer != nullptr) tokenizer->export_to(llama2_c_tokenizer(path), TokenizerFormat::kLlama2);
}

}  // namespace tril
