#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/output.h"
#include "tril/containers/json.h"
#include "tril/containers/safetensors.h"
#include "tril/interop/model_folder.h"
#include "tril/kernels/elementwise.h"
#include "tril/nn/session.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril logits runs/book --tokens \"1 2 3\" --out logits.safetensors\n"
    "  tril logits runs/book --text \"Once upon\" --out logits.safetensors";

std::vector<int32_t> parse_tokens(std::string_view text) {
  std::vector<int32_t> tokens;
  while (true) {
    const size_t begin = text.find_first_not_of(" ,\t\n");
    if (begin == std::string_view::npos) return tokens;
    text.remove_prefix(begin);
    const size_t end = std::min(text.find_first_of(" ,\t\n"), text.size());
    tokens.push_back(static_cast<int32_t>(parse_count("--tokens", text.substr(0, end), {0, 2147483647})));
    text.remove_prefix(end);
  }
}

}  // namespace

int logits_command(const Arguments& words) {
  std::string folder, token_text, text, out;
  int64_t threads = 0;
  bool json = false;
  CommandLine line(
      "logits",
      "Writes a model's logits for given tokens to a safetensors file: float32 `logits` (T, V).\n"
      "So any program's forward pass can be compared with tril's.",
      kExamples);
  line.positional("MODEL", folder, "folder of a model or a run, or a model file");
  line.text("--tokens", token_text, "IDS", "token ids with spaces or commas between");
  line.text("--text", text, "TEXT", "text, encoded with the model's tokenizer");
  line.text("--out", out, "FILE", "the safetensors file to write");
  line.threads(threads);
  line.flag("--json", json, "report as one JSON object");
  if (!line.parse(words)) return 0;
  check_use(!folder.empty(), "tril logits: no model given; usage: tril logits MODEL --tokens IDS --out FILE");
  check_use(line.given("--tokens") != line.given("--text"), "tril logits: give either --tokens or --text");
  check_use(!out.empty(), "tril logits: no --out FILE given");
  check_use(out != "-", "tril logits: --out needs a file; safetensors cannot be written to standard output");
  refuse_file_of_model(out);

  LoadedModel loaded = load_model(folder);
  std::vector<int32_t> tokens = parse_tokens(token_text);
  if (line.given("--text")) {
    check_data(loaded.tokenizer != nullptr, "{}: there is no tokenizer.json; give --tokens", folder);
    tokens = loaded.tokenizer->encode(text);
  }
  check_use(!tokens.empty(), "tril logits: no tokens given; give at least one");
  const auto time = static_cast<int64_t>(tokens.size());
  check_use(time <= loaded.config.context,
            "tril logits: {} tokens are more than the model's context of {}; give fewer", time,
            loaded.config.context);
  const std::vector<int32_t> targets(tokens.size(), 0);
  const Batch batch{
      .batch = 1, .time = time, .tokens = tokens.data(), .targets = targets.data(), .counted_targets = time};
  loaded.model->check_batch(batch);
  ThreadPool pool(static_cast<int>(threads));
  Session session(*loaded.model, pool, 1, time, /*with_backward=*/false);
  Tensor logits({time, loaded.config.vocabulary});
  loaded.model->logits(session.context(), batch, session.state(), logits.view());
  int64_t bad = -1;
  first_non_finite(pool, logits.elements(), logits.f32(), &bad);
  if (bad >= 0)
    fail(ErrorKind::kNumerics, "{}: the logit of token {} at position {} is {}; the weights are damaged",
         folder, bad % loaded.config.vocabulary, bad / loaded.config.vocabulary, logits.f32()[bad]);
  write_safetensors(out, {{"logits", logits.view()}});
  if (json)
    std::puts(
        to_text({{"out", out}, {"tokens", tokens}, {"shape", {time, loaded.config.vocabulary}}}).c_str());
  else
    fmt::print("logits ({}, {}) written to {}\n", time, loaded.config.vocabulary, out);
  return 0;
}

}  // namespace tril::cli
