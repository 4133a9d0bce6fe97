#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "cli/command.h"
#include "cli/format.h"
#include "tril/containers/json.h"
#include "tril/interop/export_model.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril convert runs/book book.gguf --type q8_0     for llama.cpp and Ollama\n"
    "  tril convert runs/book book-hf                   a folder for transformers\n"
    "  tril convert model.gguf model                    back, to train on\n"
    "  tril convert ckpt.pt model                       a checkpoint of nanoGPT or the tutorials";

// Bytes of the file, or of the folder's files.
int64_t size_of(const Path& path) {
  if (!std::filesystem::is_directory(path)) return static_cast<int64_t>(std::filesystem::file_size(path));
  int64_t size = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    if (entry.is_regular_file()) size += static_cast<int64_t>(entry.file_size());
  return size;
}

void print_text(const Json& report) {
  fmt::print("{} ({} layout, {} parameters)\n", one_line(report["model"].get<std::string>()),
             report["layout"].get<std::string>(), format_count(report["parameters"].get<int64_t>()));
  fmt::print("-> {}: {}, {}, {}, {} bytes in {:.1f} s\n", one_line(report["out"].get<std::string>()),
             report["format"].get<std::string>(), report["model_type"].get<std::string>(),
             report["type"].get<std::string>(), format_count(report["bytes"].get<int64_t>()),
             report["seconds"].get<double>());
  const Json& checked = report["checked"];
  if (checked.is_null())
    fmt::print("not compared with the original (--no-verify)\n");
  else
    fmt::print("read again and compared: logits of {} tokens differ by {:.2g} of their spread\n",
               checked["tokens"].get<int64_t>(), checked["relative_difference"].get<double>());
}

void check_difference(const LogitDifference& difference, const std::string& in, const std::string& out,
                      const std::string& type) {
  if (difference.relative <= difference.allowed) return;
  if (!std::isfinite(difference.relative))
    fail(ErrorKind::kNumerics,
         "{}: its logits are not finite, so its weights are damaged; nothing was written (--no-verify does "
         "not look)",
         in);
  fail(ErrorKind::kNumerics,
       "{}: its logits differ from those of {} by {:.3g} of their spread, and {} explains {}; nothing was "
       "written: give a wider --type",
       out, in, difference.relative, type, difference.allowed);
}

}  // namespace

int convert_command(const Arguments& words) {
  std::string in, out, to, type = "f32";
  bool force = false, no_verify = false, json = false;
  int64_t threads = 0;
  CommandLine line(
      "convert",
      "Writes a model in another format: a folder of Hugging Face's (GPT-2, Llama, Mistral, Qwen-2,\n"
      "Qwen-3) or of tril's own, or a file of GGUF, PyTorch (the tutorials' or nanoGPT's checkpoint) or\n"
      "llama2.c. What a format cannot express exactly is refused.",
      kExamples);
  line.positional("MODEL", in, "folder of a model or a run, or a model file");
  line.positional("OUT", out,
                  "file or folder to write: .gguf, .pt (PyTorch), .bin (llama2.c); without ending a folder");
  line.text("--to", to, "FORMAT",
            "hf, tril, gguf, pt, llama2.c, llama2.c-v1 (default: by the ending of OUT)");
  line.text("--type", type, "TYPE",
            "of the weights: f32 (default), f16, bf16; in GGUF also q8_0, q4_0; in llama2.c q8_0");
  line.flag("--force", force, "replace OUT if it is there");
  line.flag("--no-verify", no_verify, "do not read the result again and compare its logits");
  line.threads(threads);
  line.flag("--json", json, "report as one JSON object");
  if (!line.parse(words)) return 0;
  check_use(!in.empty() && !out.empty(), "tril convert: usage: tril convert MODEL OUT");

  std::error_code none;
  check_use(!std::filesystem::equivalent(in, out, none),
            "tril convert: {} is the model itself; give another OUT", out);
  check_use(!std::filesystem::exists(out, none) ||
                !std::filesystem::equivalent(in, std::filesystem::absolute(out).parent_path(), none),
            "tril convert: {} is a file of the model itself; give another OUT", out);
  const ExportOptions options{.format = to.empty() ? model_format_of_path(out) : model_format_from_name(to),
                              .dtype = weight_type_from_name(type),
                              .replace = force};
  const auto start = std::chrono::steady_clock::now();
  Json report;
  report["model"] = in;
  {
    const StoredModel model = open_model(in);
    report["layout"] = model.layout.name;
    report["parameters"] = model.config.parameter_count();
    report["out"] = out;
    report["format"] = name_of(options.format);
    report["checked"] = nullptr;
    report["model_type"] = export_model(model, out, options, [&](const Path& made) {
      if (no_verify) return;
      ThreadPool pool(static_cast<int>(threads));
      const LogitDifference difference = compare_logits(in, made, options.dtype, pool);
      check_difference(difference, in, out, type);
      report["checked"] = {{"tokens", difference.tokens}, {"relative_difference", difference.relative}};
    });
  }
  report["type"] = type;
  report["bytes"] = size_of(out);
  report["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (json)
    std::puts(to_text(report).c_str());
  else
    print_text(report);
  return 0;
}

}  // namespace tril::cli
