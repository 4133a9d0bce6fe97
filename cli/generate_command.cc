#include <algorithm>
#include <cstdio>

#include "cli/command.h"
#include "cli/format.h"
#include "cli/generate_output.h"
#include "cli/prompt.h"
#include "cli/sampler_options.h"
#include "cli/weights_option.h"
#include "tril/base/files.h"
#include "tril/base/printable.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril generate runs/book --prompt \"Once upon a time\"\n"
    "  tril generate runs/book --prompt \"The\" --temperature 0 --max-tokens 50     the likeliest text\n"
    "  tril generate runs/book --samples 3 --seed 7                               three, from an empty "
    "prompt\n"
    "  tril generate runs/book --prompt \"Q: why?\\nA:\" --stop \"\\nQ:\"               up to the next "
    "question\n"
    "  tril generate runs/book --prompts starts.txt --json --logprobs 3           a prompt a line, as JSON\n"
    "  cat start.txt | tril generate runs/book --prompt -";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    out.push_back(std::move(line));
    at = end + 1;
  }
  return out;
}

struct GenerateArguments {
  std::string folder, prompt, prompts;
  int64_t samples = 1, batch = 8, log_probabilities = -1, threads = 0;
  bool specials = false, json = false;
  SamplerArguments sampler;
  WeightsOption weights;
};

std::vector<std::string> prompts_of(const GenerateArguments& a) {
  if (a.prompts.empty()) return {a.prompt == "-" ? read_standard_input() : a.prompt};
  check_use(a.prompt.empty(), "--prompt and --prompts: give one of them");
  std::vector<std::string> out =
      lines_of(a.prompts == "-" ? read_standard_input() : read_text_file(a.prompts));
  check_data(!out.empty(), "--prompts {}: there is no line in it", one_line(a.prompts));
  return out;
}

}  // namespace

int generate_command(const Arguments& words) {
  GenerateArguments a;
  CommandLine line("generate",
                   "Writes text with a model: the prompt and what the model adds, on standard output.",
                   kExamples);
  line.positional("MODEL", a.folder, "folder of a model or a run, or a model file");
  line.text("--prompt", a.prompt, "TEXT",
            "text to go on from, - for standard input (empty: end-of-text or a line break)");
  line.text("--prompts", a.prompts, "FILE", "a text to go on from in each line, - for standard input");
  line.flag("--special", a.specials, "special tokens spelled out in a prompt are tokens, not text");
  a.sampler.add_to(line);
  line.seed("--seed", a.sampler.seed, "of the random choices; sample i of a prompt uses seed + i (1)");
  line.count("--samples", a.samples, {1, 1'000'000},
             "texts for each prompt, with a line --- between them (1)");
  line.count("--batch", a.batch, {1, 1 << 16}, "texts that are written together, each as if alone (8)");
  a.weights.add_to(line);
  line.flag("--json", a.json, "a JSON object for each text, a line each");
  line.count("--logprobs", a.log_probabilities, {0, 1 << 20},
             "with --json: log-probabilities of each token and of the N likeliest, of the model itself");
  line.threads(a.threads);
  if (!line.parse(words)) return 0;
  check_use(!a.folder.empty(),
            "tril generate: no model given; usage: tril generate MODEL (tril generate --help)");
  check_use(a.log_probabilities < 0 || a.json, "--logprobs: they are written as JSON; add --json");
  const std::vector<std::string> stops = a.sampler.stop_strings();
  ThreadPool pool(static_cast<int>(a.threads));
  const LoadedModel loaded = a.weights.load(a.folder, pool);
  check_data(loaded.tokenizer != nullptr,
             "{}: there is no tokenizer.json, so text cannot be written; see tril logits", a.folder);
  const Tokenizer& tokenizer = *loaded.tokenizer;
  const GenerateOptions options = a.sampler.options(loaded);

  std::vector<GenerateRequest> requests;
  std::vector<WrittenText> texts;
  const std::vector<std::string> prompts = prompts_of(a);
  for (size_t p = 0; p < prompts.size(); ++p) {
    const std::vector<int32_t> tokens = prompt_tokens(tokenizer, prompts[p], a.specials);
    for (int64_t sample = 0; sample < a.samples; ++sample) {
      const uint64_t seed = options.sampler.seed + static_cast<uint64_t>(sample);
      requests.push_back({tokens, seed});
      texts.push_back({prompts[p], static_cast<int64_t>(p), sample, seed});
    }
  }
  const auto batch = static_cast<size_t>(a.batch);
  for (size_t begin = 0; begin < requests.size(); begin += batch) {
    const size_t count = std::min(batch, requests.size() - begin);
    const auto first = texts.begin() + static_cast<std::ptrdiff_t>(begin);
    GenerateOutput output(tokenizer, {first, first + static_cast<std::ptrdiff_t>(count)}, stops, a.json,
                          a.log_probabilities, begin == 0);
    generate_batch(*loaded.model, pool, std::span(requests).subspan(begin, count), options,
                   [&](size_t r, int32_t id, std::span<const float> logits) {
                     const bool stop = std::ranges::find(options.stop_ids, id) != options.stop_ids.end();
                     return output.token(r, id, logits, stop);
                   });
    output.finish();
    if (output.gone()) break;
  }
  return 0;
}

}  // namespace tril::cli
