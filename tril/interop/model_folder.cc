#include "tril/interop/model_folder.h"

#include "tril/interop/config_json.h"
#include "tril/interop/model_text.h"
#include "tril/interop/torch_checkpoint.h"

namespace tril {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kTorch = "pytorch_model.bin";  // of old folders
constexpr const char* kTokenizer = "tokenizer.json";

StoredArrays read_arrays(const Path& folder) {
  if (!std::filesystem::exists(folder / kWeights) && std::filesystem::exists(folder / kIndex))
    return stored_arrays_of_index(folder / kIndex);
  if (!std::filesystem::exists(folder / kWeights) && std::filesystem::exists(folder / kTorch))
    return torch_arrays(folder / kTorch);
  auto file = std::make_shared<const SafetensorsFile>(folder / kWeights);
  file->check_checksum();
  return stored_arrays(std::move(file));
}

// The layout in which a model is written and its config.json.
struct FolderFormat {
  Layout layout;
  std::string config_json;
};

FolderFormat folder_format(const TransformerConfig& config, const TokenIds& ids,
                           const FolderOptions& options) {
  if (options.kind != FolderKind::kTril) {
    std::string not_gpt2, not_llama;
    if (expressible_as_gpt2(config, not_gpt2))
      return {gpt2_layout(config), gpt2_config_json(config, options.dtype, ids)};
    const std::string type = llama_model_type(config, not_llama);
    if (!type.empty()) return {llama_layout(config), llama_config_json(config, type, options.dtype, ids)};
    check_use(
        options.kind == FolderKind::kAny,
        "no model of Hugging Face's that tril knows computes this one: not GPT-2, as {}; not Llama, as {}; "
        "write tril's own folder instead (--to tril)",
        not_gpt2, not_llama);
  }
  return {tril_layout(config), tril_config_json(config)};
}

}  // namespace

std::string write_model_folder(const Path& folder, const TransformerConfig& config, const ReadRows& rows,
                               const Tokenizer* tokenizer, const ModelText& text,
                               const FolderOptions& options) {
  const TransformerConfig c = config.resolved();
  check_use(tokenizer == nullptr || tokenizer->vocabulary() <= c.vocabulary,
            "the tokenizer has {} ids, the model {}", tokenizer == nullptr ? 0 : tokenizer->vocabulary(),
            c.vocabulary);
  check_use(dtype_info(options.dtype).block_elements == 1,
            "a model folder cannot hold {}; choose f32, f16 or bf16, or write GGUF",
            dtype_info(options.dtype).name);
  const TokenIds ids = token_ids(tokenizer, text);
  const FolderFormat format = folder_format(c, ids, options);
  make_directories(folder);
  write_file_atomic(folder / kConfig, format.config_json);
  if (tokenizer != nullptr) {
    tokenizer->save(folder / kTokenizer);
    write_file_atomic(folder / "tokenizer_config.json", tokenizer_config_json(*tokenizer, c.context, text));
  }
  write_file_atomic(folder / "generation_config.json", generation_config_json(ids));
  std::vector<StreamedArray> arrays = arrays_to_write(format.layout, rows);
  for (StreamedArray& array : arrays) array.dtype = options.dtype;
  write_streamed_safetensors(folder / kWeights, arrays, {}, /*checksum=*/true);
  return format.layout.name;
}

void save_model_folder(const Path& folder, const TransformerConfig& config, const Parameters& parameters,
                       const Tokenizer& tokenizer, const ModelText& text) {
  write_model_folder(folder, config, rows_of(parameters), &tokenizer, text, {});
}

StoredModel open_model_folder(const Path& folder) {
  check_data(std::filesystem::is_directory(folder),
             "{}: not a folder; a model is a folder with {}, {} and {}", folder.string(), kConfig, kWeights,
             kTokenizer);
  ReadConfig read = read_config_json(folder / kConfig);
  StoredModel out{.config = read.config, .layout = std::move(read.layout), .arrays = read_arrays(folder)};
  out.text.stop_ids = std::move(read.stop_ids);
  read_model_text(folder, out.text);
  for (const char* name : {kTokenizer, "vocab.json", "tokenizer.bin"}) {
    if (out.tokenizer != nullptr || !std::filesystem::exists(folder / name)) continue;
    out.tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(folder / name));
  }
  return out;
}

}  // namespace tril
