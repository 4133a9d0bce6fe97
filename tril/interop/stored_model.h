// A model as its files have it, whatever their format: configuration, names and arrays, nothing converted.
// What `load_model` makes of it is a model to compute with; what a converter makes of it is another file.
#pragma once

#include <memory>

#include "tril/interop/layout.h"
#include "tril/text/tokenizer.h"

namespace tril {

// What belongs to a model besides its weights.
struct ModelText {
  std::string chat_template;      // Jinja, as other programs keep it; empty: none
  std::vector<int32_t> stop_ids;  // tokens that end a text, in the order of the files
};

struct StoredModel {
  TransformerConfig config;
  Layout layout;
  StoredArrays arrays;
  std::unique_ptr<Tokenizer> tokenizer;  // null if there is none
  ModelText text;
};

// A model folder, or a file of one of the formats that docs/interoperability.md lists, told by its first
// bytes. Throws kData naming file, key, tensor and values. The arrays have been checked against the
// configuration.
StoredModel open_model(const Path& path);

struct LoadedModel {
  TransformerConfig config;
  std::unique_ptr<Transformer> model;
  std::unique_ptr<Parameters> parameters;  // without gradients
  std::unique_ptr<Tokenizer> tokenizer;    // null if there is none
  std::string layout;                      // the layout's name: "gpt2", "llama", "tril", ...
  ModelText text;
  std::vector<std::shared_ptr<const void>> files;  // where the parameters read values of theirs
};
LoadedModel load_model(const Path& path);
LoadedModel load_model(StoredModel stored);
// All of it but the weights, for which `memory` says what is allocated; tokenizer and text are moved out.
LoadedModel without_weights(StoredModel& stored, Parameters::Memory memory);

}  // namespace tril
