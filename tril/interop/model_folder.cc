#include "tril/interop/model_folder.h"

#include "tril/containers/json.h"
#include "tril/interop/config_json.h"

namespace tril {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kTokenizer = "tokenizer.json";

// What transformers' AutoTokenizer reads beside tokenizer.json.
std::string tokenizer_config_json(const Tokenizer& tokenizer, int64_t context) {
  Json json;
  json["tokenizer_class"] = "PreTrainedTokenizerFast";
  json["model_max_length"] = context;
  json["clean_up_tokenization_spaces"] = false;
  const auto name = [&](int32_t id) {
    for (const SpecialToken& token : tokenizer.specials())
      if (token.id == id) return Json(token.content);
    return Json();
  };
  const int32_t end = tokenizer.end_of_text(), begin = tokenizer.begin_of_text();
  if (end >= 0) json["bos_token"] = json["eos_token"] = name(end);
  if (begin >= 0) json["bos_token"] = name(begin);
  return to_text(json, 2) + "\n";
}

std::string generation_config_json(int32_t end_of_text) {
  Json json;
  json["_from_model_config"] = true;
  if (end_of_text >= 0) json["bos_token_id"] = json["eos_token_id"] = end_of_text;
  return to_text(json, 2) + "\n";
}

StoredArrays read_arrays(const Path& folder) {
  if (!std::filesystem::exists(folder / kWeights) && std::filesystem::exists(folder / kIndex))
    return stored_arrays_of_index(folder / kIndex);
  auto file = std::make_shared<const SafetensorsFile>(folder / kWeights);
  file->check_checksum();
  return stored_arrays(std::move(file));
}

void write_weights(const Path& path, const Layout& layout, const Parameters& parameters) {
  write_streamed_safetensors(path, arrays_to_write(layout, rows_of(parameters)), {}, /*checksum=*/true);
}

}  // namespace

void save_model_folder(const Path& folder, const TransformerConfig& config, const Parameters& parameters,
                       const Tokenizer& tokenizer, const ModelText&) {
  const TransformerConfig c = config.resolved();
  check_use(tokenizer.vocabulary() <= c.vocabulary, "the tokenizer has {} ids, the model {}",
            tokenizer.vocabulary(), c.vocabulary);
  const bool gpt2 = expressible_as_gpt2(c);
  make_directories(folder);
  write_file_atomic(folder / kConfig,
                    gpt2 ? gpt2_config_json(c, tokenizer.end_of_text()) : tril_config_json(c));
  tokenizer.save(folder / kTokenizer);
  write_file_atomic(folder / "tokenizer_config.json", tokenizer_config_json(tokenizer, c.context));
  if (gpt2)
    write_file_atomic(folder / "generation_config.json", generation_config_json(tokenizer.end_of_text()));
  write_weights(folder / kWeights, gpt2 ? gpt2_layout(c) : tril_layout(c), parameters);
}

StoredModel open_model_folder(const Path& folder) {
  check_data(std::filesystem::is_directory(folder),
             "{}: not a folder; a model is a folder with {}, {} and {}", folder.string(), kConfig, kWeights,
             kTokenizer);
  ReadConfig read = read_config_json(folder / kConfig);
  StoredModel out{.config = read.config, .layout = std::move(read.layout), .arrays = read_arrays(folder)};
  out.text.stop_ids = std::move(read.stop_ids);
  for (const char* name : {kTokenizer, "vocab.json", "tokenizer.bin"}) {
    if (out.tokenizer != nullptr || !std::filesystem::exists(folder / name)) continue;
    out.tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(folder / name));
  }
  return out;
}

}  // namespace tril
