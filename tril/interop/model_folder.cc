#include "tril/interop/model_folder.h"

#include "tril/containers/json.h"
#include "tril/interop/layout.h"

namespace tril {
namespace {

constexpr const char* kConfig = "config.json";
constexpr const char* kWeights = "model.safetensors";
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

Path weights_file(const Path& folder) {
  Path path = folder / kWeights;
  check_data(
      std::filesystem::exists(path) || !std::filesystem::exists(folder / "model.safetensors.index.json"),
      "{}: the weights are in several files; join them into one {} first", folder.string(), kWeights);
  return path;
}

}  // namespace

void save_model_folder(const Path& folder, const TransformerConfig& config, const Parameters& parameters,
                       const Tokenizer& tokenizer) {
  const TransformerConfig c = config.resolved();
  check_use(tokenizer.vocabulary() <= c.vocabulary, "the tokenizer has {} ids, the model {}",
            tokenizer.vocabulary(), c.vocabulary);
  const bool gpt2 = expressible_as_gpt2(c);
  make_directories(folder);
  write_file_atomic(folder / kConfig,
                    gpt2 ? gpt2_config_json(c, tokenizer.end_of_text()) : tril_config_json(c));
  tokenizer.save(folder / kTokenizer);
  write_file_atomic(folder / "tokenizer_config.json", tokenizer_config_json(tokenizer, c.context));
  if (gpt2) {
    write_file_atomic(folder / "generation_config.json", generation_config_json(tokenizer.end_of_text()));
    write_gpt2_weights(folder / kWeights, c, parameters);
  } else {
    write_tril_weights(folder / kWeights, parameters);
  }
}

LoadedModel load_model_folder(const Path& folder) {
  check_data(std::filesystem::is_directory(folder),
             "{}: not a folder; a model is a folder with {}, {} and {}", folder.string(), kConfig, kWeights,
             kTokenizer);
  LoadedModel out;
  out.config = read_config_json(folder / kConfig, out.layout);
  const SafetensorsFile file(weights_file(folder));
  file.check_checksum();
  const bool gpt2 = out.layout == "gpt2";
  check_weights(file, out.config, gpt2);
  out.model = std::make_unique<Transformer>(out.config);
  out.parameters = std::make_unique<Parameters>(*out.model, Parameters::Memory::kValues);
  read_weights(file, gpt2, *out.parameters);
  for (const char* name : {kTokenizer, "vocab.json", "tokenizer.bin"}) {
    if (out.tokenizer != nullptr || !std::filesystem::exists(folder / name)) continue;
    out.tokenizer = std::make_unique<Tokenizer>(Tokenizer::load(folder / name));
    check_data(out.tokenizer->vocabulary() <= out.config.vocabulary,
               "{}: the tokenizer has {} ids, the model {}; they belong to different models", folder.string(),
               out.tokenizer->vocabulary(), out.config.vocabulary);
  }
  return out;
}

}  // namespace tril
