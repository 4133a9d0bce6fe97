#include "tril/interop/llm_c.h"

#include "tril/interop/flat_file.h"
#include "tril/interop/torch_checkpoint.h"

namespace tril {
namespace {

constexpr int32_t kModel = 20240326, kDebugState = 20240327, kLlama3 = 20240803;
constexpr size_t kHeaderBytes = 256 * sizeof(int32_t);
constexpr int64_t kPadding = 128;  // the rows of wte are a multiple of it

int32_t header_at(const MappedFile& file, size_t index) {
  return number_at<int32_t>(file.bytes(), index * sizeof(int32_t));
}

void check_header(const MappedFile& file, const std::string& where) {
  check_data(file.bytes().size() >= kHeaderBytes,
             "{}: {} bytes are too few for a file of llm.c: get it again", where, file.bytes().size());
}

// The arrays of the model, or its gradients, from the begin of the first; wte has `padded` rows.
StoredArrays take_arrays(FlatFile& file, const TransformerConfig& c, int64_t padded, DType dtype) {
  StoredArrays out;
  const int64_t element = dtype_info(dtype).block_bytes;
  const auto add = [&](std::string name, const Shape& shape, const std::byte* data) {
    out.arrays.push_back({.name = std::move(name), .shape = shape, .dtype = dtype, .data = data});
  };
  add("wte.weight", {c.vocabulary, c.channels}, file.take(1, padded, c.channels, element));
  add("wpe.weight", {c.context, c.channels}, file.take(1, c.context, c.channels, element));
  struct Kind {
    const char* name;
    int64_t rows, columns;  // of a vector: 1 column
  };
  const int64_t n = c.channels;
  for (const Kind& kind : {Kind{"ln_1.weight", n, 1},
                           {"ln_1.bias", n, 1},
                           {"attn.c_attn.weight", 3 * n, n},
                           {"attn.c_attn.bias", 3 * n, 1},
                           {"attn.c_proj.weight", n, n},
                           {"attn.c_proj.bias", n, 1},
                           {"ln_2.weight", n, 1},
                           {"ln_2.bias", n, 1},
                           {"mlp.c_fc.weight", 4 * n, n},
                           {"mlp.c_fc.bias", 4 * n, 1},
                           {"mlp.c_proj.weight", n, 4 * n},
                           {"mlp.c_proj.bias", n, 1}}) {
    const std::byte* data = file.take(c.layers, kind.rows, kind.columns, element);
    const bool vector =
        std::string_view(kind.name).ends_with("bias") || std::string_view(kind.name).starts_with("ln");
    for (int64_t layer = 0; layer < c.layers; ++layer, data += kind.rows * kind.columns * element)
      add(fmt::format("h.{}.{}", layer, kind.name),
          vector ? Shape{kind.rows} : Shape{kind.rows, kind.columns}, data);
  }
  add("ln_f.weight", {n}, file.take(1, n, 1, element));
  add("ln_f.bias", {n}, file.take(1, n, 1, element));
  file.expect_end();
  return out;
}

Layout llm_c_layout(const TransformerConfig& config) {
  Layout out = nanogpt_layout(config);
  out.name = "llm.c";
  return out;
}

int32_t first_number(const Path& path) {
  const MappedFile file(path);
  return file.bytes().size() < sizeof(int32_t) ? 0 : header_at(file, 0);
}

}  // namespace

bool is_llm_c_file(const Path& path) {
  const int32_t magic = first_number(path);
  return magic == kModel || magic == kLlama3;
}

StoredModel open_llm_c_model(const Path& path) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string where = printable(path.native(), 4096);
  check_header(*file, where);
  check_data(header_at(*file, 0) == kModel,
             "{}: this is {}; of llm.c's models GPT-2's are read: get Llama 3 from Hugging Face", where,
             header_at(*file, 0) == kLlama3 ? "a Llama 3 model of llm.c" : "no model of llm.c");
  const int32_t version = header_at(*file, 1);
  check_data(
      version == 3 || version == 5,
      "{}: version {} of llm.c's model files; 3 (float32) and 5 (bfloat16) are read: write it again with its "
      "train_gpt2.py",
      where, version);
  TransformerConfig c;
  c.set_architecture("gpt");
  c.context = header_at(*file, 2);
  c.vocabulary = header_at(*file, 3);
  c.layers = header_at(*file, 4);
  c.heads = header_at(*file, 5);
  c.channels = header_at(*file, 6);
  const int64_t padded = header_at(*file, 7);
  StoredModel out;
  out.config = resolved_of_file(c, where);
  check_data(padded >= c.vocabulary,
             "{}: a vocabulary of {} is padded to {}; the file is damaged: get it again", where, c.vocabulary,
             padded);
  FlatFile arrays(file->bytes(), kHeaderBytes, where);
  out.arrays = take_arrays(arrays, out.config, padded, version == 3 ? DType::kF32 : DType::kBF16);
  out.arrays.where = where;
  out.arrays.owners.push_back(file);
  out.layout = llm_c_layout(out.config);
  return out;
}

LlmCDebugState read_llm_c_debug_state(const Path& path, const TransformerConfig& config) {
  const auto file = std::make_shared<const MappedFile>(path);
  const std::string where = printable(path.native(), 4096);
  check_header(*file, where);
  check_data(header_at(*file, 0) == kDebugState && header_at(*file, 1) == 2,
             "{}: no debug state of llm.c of version 2; write it with its train_gpt2.py", where);
  LlmCDebugState out;
  out.batch = header_at(*file, 2);
  out.time = header_at(*file, 3);
  check_data(
      out.batch > 0 && out.time > 0 && out.time <= config.context,
      "{}: {} rows of {} tokens, the model has a context of {}; give the model that it was computed from",
      where, out.batch, out.time, config.context);
  FlatFile rest(file->bytes(), kHeaderBytes, where);
  for (std::vector<int32_t>* const ids : {&out.tokens, &out.targets}) {
    const std::byte* const data = rest.take(out.batch, out.time, 1, sizeof(int32_t));
    ids->resize(static_cast<size_t>(out.batch * out.time));
    std::memcpy(ids->data(), data, ids->size() * sizeof(int32_t));
  }
  const int64_t padded = round_up(config.vocabulary, kPadding);
  out.logits = {.name = "logits",
                .shape = {out.batch, out.time, config.vocabulary},
                .data = rest.take(out.batch * out.time, config.vocabulary, 1, sizeof(float))};
  std::memcpy(&out.loss, rest.take(1, 1, 1, sizeof(float)), sizeof(float));
  out.gradients.config = config;
  out.gradients.layout = llm_c_layout(config);
  out.gradients.arrays = take_arrays(rest, config, padded, DType::kF32);
  out.gradients.arrays.where = where;
  out.gradients.arrays.owners.push_back(file);
  return out;
}

}  // namespace tril
