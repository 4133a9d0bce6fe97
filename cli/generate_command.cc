#include <cstdio>

#include "cli/command.h"
#include "cli/prompt.h"
#include "cli/weights_option.h"
#include "tril/base/files.h"
#include "tril/generate/generate.h"
#include "tril/interop/model_folder.h"
#include "tril/text/utf8.h"

namespace tril::cli {
namespace {

// Standard output, whole characters only, as soon as they are whole.
class TextOutput {
 public:
  bool push(std::string_view bytes) { return write(stream_.push(bytes)); }
  void finish() {
    write(stream_.finish());
    if (last_ != '\n') write("\n");
  }

 private:
  bool write(std::string_view text) {
    if (text.empty()) return good_;
    last_ = text.back();
    good_ =
        good_ && std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
    return good_;
  }

  Utf8Stream stream_;
  char last_ = 0;
  bool good_ = true;
};

constexpr const char* kExamples =
    "  tril generate runs/book --prompt \"Once upon a time\"\n"
    "  tril generate runs/book --prompt \"The\" --temperature 0 --max-tokens 50     the likeliest text\n"
    "  tril generate runs/book --samples 3 --seed 7                               three, from an empty "
    "prompt\n"
    "  cat start.txt | tril generate runs/book --prompt -";

}  // namespace

int generate_command(const Arguments& words) {
  std::string folder, prompt;
  int64_t max_tokens = 200, top_k = 0, samples = 1, threads = 0;
  std::string cache = "f32";
  WeightsOption weights;
  double temperature = 0.8, top_p = 1;
  SamplerOptions sampler;
  CommandLine line("generate",
                   "Writes text with a model: the prompt and what the model adds, on standard output.",
                   kExamples);
  line.positional("MODEL", folder, "folder of a model or a run");
  line.text("--prompt", prompt, "TEXT",
            "text to go on from, - for standard input (empty: end-of-text or a line break)");
  line.count("--max-tokens", max_tokens, {0, 1'000'000'000}, "most tokens to add (200)");
  line.number("--temperature", temperature, {0, 1e9}, "randomness; 0: always the likeliest token (0.8)");
  line.count("--top-k", top_k, {0, 1'000'000'000}, "choose among the k likeliest tokens, 0: all (0)");
  line.number("--top-p", top_p, {0, 1}, "choose among the likeliest tokens of this probability (1)");
  line.seed("--seed", sampler.seed, "of the random choices; sample i uses seed + i (1)");
  line.count("--samples", samples, {1, 1'000'000}, "texts to write, with a line --- between them (1)");
  line.text("--cache", cache, "TYPE",
            "keys and values of past tokens as f32, or as bf16 in half the memory (f32)");
  weights.add_to(line);
  line.threads(threads);
  if (!line.parse(words)) return 0;
  check_use(!folder.empty(),
            "tril generate: no model given; usage: tril generate MODEL (tril generate --help)");

  check_use(cache == "f32" || cache == "bf16", "--cache is '{}'; give f32 or bf16", cache);
  sampler.temperature = static_cast<float>(temperature);
  sampler.top_k = top_k;
  sampler.top_p = static_cast<float>(top_p);
  check_sampler(sampler);
  ThreadPool pool(static_cast<int>(threads));
  const LoadedModel loaded = weights.load(folder, pool);
  check_data(loaded.tokenizer != nullptr,
             "{}: there is no tokenizer.json, so text cannot be written; see tril logits", folder);
  const Tokenizer& tokenizer = *loaded.tokenizer;
  if (prompt == "-") prompt = read_standard_input();
  const std::vector<int32_t> tokens = prompt_tokens(tokenizer, prompt);

  const uint64_t first_seed = sampler.seed;
  for (int64_t sample = 0; sample < samples; ++sample) {
    sampler.seed = first_seed + static_cast<uint64_t>(sample);
    if (sample > 0) std::fputs("---\n", stdout);
    TextOutput output;
    output.push(prompt);
    generate(
        *loaded.model, pool, tokens, max_tokens, sampler, tokenizer.end_of_text(),
        [&](int32_t id) { return output.push(tokenizer.token_bytes(id)); },
        cache == "bf16" ? DType::kBF16 : DType::kF32);
    output.finish();
  }
  return 0;
}

}  // namespace tril::cli
