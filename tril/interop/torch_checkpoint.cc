#include "tril/interop/torch_checkpoint.h"

#include "tril/base/printable.h"
#include "tril/containers/torch_file.h"
#include "tril/data/nanogpt.h"
#include "tril/interop/config_json.h"
#include "tril/interop/model_folder.h"

namespace tril {
namespace {

using Kind = PickleValue::Kind;

bool has_tensors(const PickleValue* value) {
  const PickleValue* const in = value != nullptr ? value->dictionary() : nullptr;
  if (in == nullptr) return false;
  for (size_t i = 1; i < in->items.size(); i += 2)
    if (TorchFile::is_tensor(*in->items[i])) return true;
  return false;
}

const PickleValue& state_dict(const TorchFile& file) {
  const PickleValue& root = file.root();
  for (const char* const key : {"model_state_dict", "state_dict", "model"})
    if (const PickleValue* const value = root.find(key); has_tensors(value)) return *value->dictionary();
  if (has_tensors(&root)) return *root.dictionary();
  const PickleValue* const model = root.find("model");
  const PickleValue& object = model != nullptr ? *model : root;
  check_data(object.kind != Kind::kObject || object.items[0]->kind != Kind::kGlobal,
             "{}: holds an object of the Python class {}, which is not run; save its weights: "
             "torch.save(model.state_dict(), NEW)",
             file.where(), object.kind == Kind::kObject ? printable(object.items[0]->text, 80) : "");
  fail(ErrorKind::kData,
       "{}: holds no tensors, nor under \"model_state_dict\", \"state_dict\" or \"model\"; save "
       "model.state_dict()",
       file.where());
}

StoredArrays arrays_of(const std::shared_ptr<const TorchFile>& file) {
  StoredArrays out{.where = file->where(), .owners = {file}};
  const PickleValue& state = state_dict(*file);
  int64_t bytes = 0;
  for (size_t i = 0; i + 1 < state.items.size(); i += 2) {
    const PickleValue& key = *state.items[i];
    const PickleValue& value = *state.items[i + 1];
    if (key.kind != Kind::kText || (value.kind != Kind::kObject && value.kind != Kind::kPersistent)) continue;
    TorchTensor tensor = file->tensor(value, key.text);
    StoredArray& array = out.arrays.emplace_back();
    array.name = key.text;
    array.shape = tensor.shape;
    array.dtype = tensor.dtype;
    array.data = tensor.data;
    const auto plain = contiguous_strides(tensor.shape);
    for (size_t d = 0; d < tensor.strides.size(); ++d)
      if (tensor.strides[d] != plain[d]) array.strides = tensor.strides;
    bytes = checked_add(bytes, dtype_bytes(tensor.dtype, tensor.shape.elements()));
  }
  // Tied weights are two names of one storage; more than that only lets a small file claim any size.
  check_data(bytes / 2 <= file->storage_bytes(),
             "{}: tensors of {} bytes share storages of {}; save them as copies: tensor.clone()", out.where,
             bytes, file->storage_bytes());
  return out;
}

int64_t size_in(const PickleValue& arguments, const char* key, const std::string& where) {
  const PickleValue* const value = arguments.find(key);
  check_data(value != nullptr && value->kind == Kind::kInteger && value->integer > 0,
             "{}: \"model_args\" has no \"{}\" from 1; give the file as train.py saved it", where, key);
  return value->integer;
}

TransformerConfig nanogpt_config(const PickleValue& arguments, const std::string& where) {
  TransformerConfig c;
  c.set_architecture("gpt");
  c.activation = Activation::kGeluErf;
  c.vocabulary = size_in(arguments, "vocab_size", where);
  c.context = size_in(arguments, "block_size", where);
  c.channels = size_in(arguments, "n_embd", where);
  c.layers = size_in(arguments, "n_layer", where);
  c.heads = size_in(arguments, "n_head", where);
  const PickleValue* const bias = arguments.find("bias");
  check_data(bias == nullptr || bias->kind == Kind::kFlag,
             "{}: \"bias\" of \"model_args\" is no True or False", where);
  // Versions without the option had biases.
  c.qkv_bias = c.projection_bias = c.mlp_bias = c.norm_bias = bias == nullptr || bias->integer == 1;
  const PickleValue* const dropout = arguments.find("dropout");
  if (dropout != nullptr && dropout->kind == Kind::kNumber) c.dropout = static_cast<float>(dropout->number);
  return resolved_of_file(c, where + ": \"model_args\"");
}

// The sizes that the tutorials' program saved beside the weights, against those of the weights.
void check_tutorial_sizes(const TorchFile& file, const TransformerConfig& c) {
  for (const char* const payload : {"config", "cfg"}) {
    const PickleValue* const saved = file.root().find(payload);
    if (saved == nullptr) continue;
    for (const auto& [key, size] :
         {std::pair("vocab_size", c.vocabulary), std::pair("context_length", c.context),
          std::pair("n_embed", c.channels), std::pair("n_head", c.heads), std::pair("n_blocks", c.layers)}) {
      const PickleValue* const value = saved->find(key);
      check_data(value == nullptr || value->kind != Kind::kInteger || value->integer == size,
                 "{}: \"{}\" says {} {}, the tensors {}; they belong to different models", file.where(),
                 payload, key, value == nullptr ? 0 : value->integer, size);
    }
  }
}

// Old versions have an output projection in no block, new ones in every block.
void check_projections(const ArraysByName& by_name, const StoredArrays& arrays, int64_t layers) {
  int64_t there = 0;
  for (const auto& [name, array] : by_name) there += name.find(".attn.proj.") != std::string::npos;
  check_data(there == 0 || there == 2 * layers,
             "{}: {} of {} tensors attn.proj are there; get the file again", arrays.where, there, 2 * layers);
}

// Sizes stand in the file beside; Hugging Face's names do not tell them.
StoredModel open_with_config(const Path& path, StoredArrays arrays) {
  const Path config = path.parent_path() / "config.json";
  check_data(
      std::filesystem::exists(config),
      "{}: a state dict with Hugging Face's names, and no config.json beside it, which has the number of "
      "heads; put it there",
      arrays.where);
  ReadConfig read = read_config_json(config);
  StoredModel out{.config = read.config, .layout = std::move(read.layout), .arrays = std::move(arrays)};
  out.text.stop_ids = std::move(read.stop_ids);
  return out;
}

// tokenizer.json, or nanoGPT's characters of meta.pkl.
std::unique_ptr<Tokenizer> tokenizer_beside(const Path& path) {
  const Path folder = path.parent_path();
  if (std::filesystem::exists(folder / "tokenizer.json"))
    return std::make_unique<Tokenizer>(Tokenizer::load(folder / "tokenizer.json"));
  auto characters = nanogpt_tokenizer(folder / "train.bin");
  return characters ? std::make_unique<Tokenizer>(*std::move(characters)) : nullptr;
}

}  // namespace

bool is_torch_file(const Path& path) { return TorchFile::is(path); }

StoredArrays torch_arrays(const Path& path) {
  const auto file = std::make_shared<const TorchFile>(path);
  file->check_checksums();
  return arrays_of(file);
}

Layout nanogpt_layout(const TransformerConfig& config) {
  Layout out = gpt2_layout(config);
  out.name = "nanogpt";
  out.whole = config;
  out.parts = [gpt2 = std::move(out.parts)](const ParameterInfo& info) {
    std::vector<ArrayPart> parts = gpt2(info);
    for (ArrayPart& part : parts) part.transposed = false;
    return parts;
  };
  return out;
}

StoredModel open_torch_model(const Path& path) {
  const auto file = std::make_shared<const TorchFile>(path);
  file->check_checksums();
  StoredModel out;
  out.arrays = arrays_of(file);
  out.tokenizer = tokenizer_beside(path);
  const ArraysByName by_name = arrays_by_name(out.arrays);
  if (by_name.contains("token_embed.weight")) {
    out.config = tutorial_config(out.arrays);
    out.layout = tutorial_layout(out.config);
    check_tutorial_sizes(*file, out.config);
    check_projections(by_name, out.arrays, out.config.layers);
    return out;
  }
  const PickleValue* const arguments = file->root().find("model_args");
  if (by_name.contains("wte.weight") && arguments != nullptr) {
    out.config = nanogpt_config(*arguments, out.arrays.where);
    out.layout = nanogpt_layout(out.config);
    return out;
  }
  check_data(
      by_name.contains("wte.weight") || by_name.contains("embed_tokens.weight"),
      "{}: the {} tensors have the names of no model that is read (such as {}); those of the tutorials, "
      "nanoGPT, and Hugging Face's GPT-2 and Llama are",
      out.arrays.where, by_name.size(), by_name.empty() ? "" : printable(by_name.begin()->first, 60));
  StoredModel with_config = open_with_config(path, std::move(out.arrays));
  with_config.tokenizer = std::move(out.tokenizer);
  return with_config;
}

}  // namespace tril
