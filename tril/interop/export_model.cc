#include "tril/interop/export_model.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "tril/interop/gguf_model.h"
#include "tril/interop/llama2_c.h"
#include "tril/interop/model_folder.h"
#include "tril/interop/torch_checkpoint.h"
#include "tril/nn/session.h"

namespace tril {
namespace {

constexpr std::pair<std::string_view, ModelFormat> kFormats[] = {
    {"hf", ModelFormat::kHuggingFace},   {"tril", ModelFormat::kTril},
    {"gguf", ModelFormat::kGguf},        {"pt", ModelFormat::kTorch},
    {"llama2.c", ModelFormat::kLlama2C}, {"llama2.c-v1", ModelFormat::kLlama2CV1}};

constexpr DType kTypes[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0};

const Tokenizer& require_tokenizer(const StoredModel& model, ModelFormat format) {
  check_use(model.tokenizer != nullptr, "{}: the model has no tokenizer, without which {} is of no use",
            model.arrays.where, name_of(format));
  return *model.tokenizer;
}

std::string export_folder(const StoredModel& model, const ReadRows& rows, const Path& out,
                          const ExportOptions& options) {
  const FolderOptions folder{
      .kind = options.format == ModelFormat::kTril ? FolderKind::kTril : FolderKind::kHuggingFace,
      .dtype = options.dtype};
  return write_model_folder(out, model.config, rows, model.tokenizer.get(), model.text, folder);
}

std::string export_torch(const StoredModel& model, const ReadRows& rows, const Path& out, DType dtype) {
  check_use(dtype == DType::kF32, "PyTorch's files are written as f32, not {}", dtype_info(dtype).name);
  const bool tutorial = model.config.architecture() == "classic";
  (tutorial ? write_torch_tutorial : write_torch_nanogpt)(out, model.config, rows);
  return tutorial ? "tutorial" : "nanogpt";
}

std::string export_llama2_c(const StoredModel& model, const ReadRows& rows, const Path& out,
                            const ExportOptions& options) {
  const bool v1 = options.format == ModelFormat::kLlama2CV1;
  check_use(options.dtype == DType::kF32 || (options.dtype == DType::kQ8_0 && !v1), "{} holds {}, not {}",
            name_of(options.format), v1 ? "f32" : "f32 or q8_0", dtype_info(options.dtype).name);
  write_llama2_c(out,
                 v1                              ? Llama2CVersion::kV1
                 : options.dtype == DType::kQ8_0 ? Llama2CVersion::kV2
                                                 : Llama2CVersion::kV0,
                 model.config, rows, model.tokenizer.get());
  return "llama2.c";
}

bool is_llama2_c(ModelFormat format) {
  return format == ModelFormat::kLlama2C || format == ModelFormat::kLlama2CV1;
}

std::string write_format(const StoredModel& model, const Path& out, const ExportOptions& options) {
  const StoredWeights weights(model.arrays, model.layout);
  const ReadRows rows = rows_of(weights, model.config);
  switch (options.format) {
    case ModelFormat::kGguf:
      return write_gguf_model(out, model.config, rows, require_tokenizer(model, options.format), model.text,
                              options.dtype);
    case ModelFormat::kTorch:
      return export_torch(model, rows, out, options.dtype);
    case ModelFormat::kLlama2C:
    case ModelFormat::kLlama2CV1:
      return export_llama2_c(model, rows, out, options);
    default:
      return export_folder(model, rows, out, options);
  }
}

// The files of a model folder in place of those of another, which may have other files of its own.
void replace_files(const Path& made, const Path& out, bool has_tokenizer) {
  // These would be read instead of what was written, or in vain.
  std::vector<const char*> others = {"chat_template.jinja", "model.safetensors.index.json"};
  if (!has_tokenizer)
    others.insert(others.end(), {"tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.bin"});
  for (const char* other : others) std::filesystem::remove(out / other);
  for (const auto& entry : std::filesystem::directory_iterator(made))
    replace_durably(entry.path(), out / entry.path().filename());
}

std::vector<float> logits_of(const Path& path, std::vector<int32_t>& tokens, Executor& executor) {
  const LoadedModel loaded = load_model(path);
  const int64_t vocabulary = loaded.config.vocabulary;
  if (tokens.empty()) {
    const RandomStream random(1, "tokens of compare_logits");
    tokens.resize(static_cast<size_t>(std::min<int64_t>(loaded.config.context, 32)));
    for (size_t i = 0; i < tokens.size(); ++i)
      tokens[i] = static_cast<int32_t>(random.below(i, static_cast<uint64_t>(vocabulary)));
  }
  const auto time = std::ssize(tokens);
  Session<Transformer> session(*loaded.model, executor, 1, time, /*with_backward=*/false);
  std::vector<float> out(static_cast<size_t>(time * vocabulary));
  loaded.model->logits(session.context(), {.batch = 1, .time = time, .tokens = tokens.data()},
                       session.state(), View(out.data(), {time, vocabulary}));
  return out;
}

double allowed_difference(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 1e-4;
    case DType::kF16:
      return 0.01;
    case DType::kBF16:
    case DType::kQ8_0:
      return 0.05;
    default:
      return 0.5;
  }
}

}  // namespace

std::string_view name_of(ModelFormat format) {
  for (const auto& [name, known] : kFormats)
    if (known == format) return name;
  return "";
}

ModelFormat model_format_from_name(std::string_view name) {
  for (const auto& [known, format] : kFormats)
    if (known == name) return format;
  fail(ErrorKind::kUse, "the format '{}' is not known; use hf, tril, gguf, pt, llama2.c or llama2.c-v1",
       name);
}

ModelFormat model_format_of_path(const Path& path) {
  const Path ending = path.extension();
  return ending == ".gguf"  ? ModelFormat::kGguf
         : ending == ".pt"  ? ModelFormat::kTorch
         : ending == ".bin" ? ModelFormat::kLlama2C
                            : ModelFormat::kHuggingFace;
}

DType weight_type_from_name(std::string_view name) {
  for (const DType type : kTypes)
    if (dtype_info(type).name == name) return type;
  fail(ErrorKind::kUse, "the type '{}' is not known; use f32, f16, bf16, q8_0 or q4_0", name);
}

std::string export_model(const StoredModel& model, const Path& path, const ExportOptions& options,
                         const std::function<void(const Path&)>& accept) {
  const Path out = path.has_filename() ? path : path.parent_path();  // "folder/"
  const auto exists = [](const Path& file) { return std::filesystem::exists(file); };
  check_use(options.replace || !exists(out), "{} exists; give another name, or --force to replace it",
            out.string());
  const Path tokenizer = llama2_c_tokenizer(out);
  check_use(options.replace || !is_llama2_c(options.format) || !exists(tokenizer),
            "{} is there already and may belong to another model; give a folder of its own, or --force",
            tokenizer.string());
  const bool folder = options.format == ModelFormat::kHuggingFace || options.format == ModelFormat::kTril;
  check_use(!exists(out) || std::filesystem::is_directory(out) == folder,
            "{} is a {}, and {} are {}; give another OUT", out.string(), folder ? "file" : "folder",
            name_of(options.format), folder ? "folders" : "files");
  // Written and looked at beside its place, where nothing is that anybody has.
  const Path work = fmt::format("{}.tril-tmp-{}", out.string(), ::getpid());
  make_directories(work);
  try {
    const Path made = work / out.filename();
    std::string type = write_format(model, made, options);
    if (accept) accept(made);
    if (is_llama2_c(options.format) && exists(llama2_c_tokenizer(made)))
      replace_durably(llama2_c_tokenizer(made), tokenizer);
    if (folder && exists(out))
      replace_files(made, out, model.tokenizer != nullptr);
    else if (options.replace)
      replace_durably(made, out);
    else
      rename_durably(made, out);
    remove_tree(work);
    return type;
  } catch (...) {
    remove_tree(work);
    throw;
  }
}

LogitDifference compare_logits(const Path& original, const Path& converted, DType dtype, Executor& executor) {
  std::vector<int32_t> tokens;
  const std::vector<float> expected = logits_of(original, tokens, executor);
  const std::vector<float> actual = logits_of(converted, tokens, executor);
  check_data(expected.size() == actual.size(), "{}: {} logits where {} are expected", converted.string(),
             actual.size(), expected.size());
  double mean = 0, difference = 0, spread = 0;
  for (const float x : expected) mean += x;
  mean /= static_cast<double>(expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    difference += (double{actual[i]} - expected[i]) * (double{actual[i]} - expected[i]);
    spread += (expected[i] - mean) * (expected[i] - mean);
  }
  return {.tokens = std::ssize(tokens),
          .relative = spread > 0 ? std::sqrt(difference / spread) : std::sqrt(difference),
          .allowed = allowed_difference(dtype)};
}

}  // namespace tril
