#include "tril/interop/stored_model.h"

#include "tril/interop/gguf_model.h"
#include "tril/interop/llama2_c.h"
#include "tril/interop/llm_c.h"
#include "tril/interop/model_folder.h"
#include "tril/interop/torch_checkpoint.h"

namespace tril {

namespace {

// What a file is, by its first bytes.
StoredModel open_unchecked(const Path& path) {
  check_data(std::filesystem::exists(path),
             "{}: there is no such file or folder; check that the path is spelled right", path.string());
  if (!std::filesystem::is_regular_file(path)) return open_model_folder(path);
  const MappedFile file(path);
  if (file.text().starts_with("GGUF")) return open_gguf_model(path);
  if (is_torch_file(path)) return open_torch_model(path);
  if (is_llm_c_file(path)) return open_llm_c_model(path);
  if (is_llama2_c_file(path)) return open_llama2_c_model(path);
  fail(ErrorKind::kData,
       "{}: not a model that tril reads; give a folder with config.json and model.safetensors, or a file of "
       "GGUF, PyTorch, llm.c or llama2.c",
       path.string());
}

}  // namespace

StoredModel open_model(const Path& path) {
  StoredModel out = open_unchecked(path);
  check_weights(out.arrays, out.layout, out.config);
  check_data(out.tokenizer == nullptr || out.tokenizer->vocabulary() <= out.config.vocabulary,
             "{}: the tokenizer has {} ids, the model {}; they belong to different models", path.string(),
             out.tokenizer == nullptr ? 0 : out.tokenizer->vocabulary(), out.config.vocabulary);
  return out;
}

LoadedModel without_weights(StoredModel& stored, Parameters::Memory memory) {
  LoadedModel out{.config = stored.config,
                  .model = std::make_unique<Transformer>(stored.config),
                  .tokenizer = std::move(stored.tokenizer),
                  .layout = stored.layout.name,
                  .text = std::move(stored.text)};
  out.parameters = std::make_unique<Parameters>(*out.model, memory);
  return out;
}

LoadedModel load_model(StoredModel stored) {
  LoadedModel out = without_weights(stored, Parameters::Memory::kValues);
  read_weights(stored.arrays, stored.layout, *out.parameters);
  return out;
}

LoadedModel load_model(const Path& path) { return load_model(open_model(path)); }

}  // namespace tril
