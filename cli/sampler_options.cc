#include "cli/sampler_options.h"

#include <limits>

#include "cli/format.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/generate/text_streamer.h"

namespace tril::cli {
namespace {

constexpr int64_t kMany = 1'000'000'000;

// "50256:-inf,13:2.5"
void parse_biases(std::string_view list, std::vector<TokenBias>& out) {
  while (!list.empty()) {
    const std::string_view item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(item.size() + 1, list.size()));
    const size_t colon = item.find(':');
    check_use(colon != item.npos, "--logit-bias '{}': give ID:X, such as 50256:-5, or ID:-inf for never",
              printable(item));
    const int64_t id =
        parse_count("--logit-bias", item.substr(0, colon), {0, std::numeric_limits<int32_t>::max()});
    const std::string_view value = item.substr(colon + 1);
    const double bias = value == "-inf" ? -std::numeric_limits<double>::infinity()
                                        : parse_number("--logit-bias", value, {-1e9, 1e9});
    out.push_back({static_cast<int32_t>(id), static_cast<float>(bias)});
  }
}

}  // namespace

void SamplerArguments::add_to(CommandLine& line) {
  line.count("--max-tokens", max_tokens, {0, kMany}, fmt::format("most tokens to add ({})", max_tokens));
  line.heading("Choosing tokens, in this order");
  line.texts("--logit-bias", logit_bias, "ID:X",
             "added to the logit of this token, -inf: never; may be repeated, or a list with commas");
  line.number("--repetition-penalty", repetition_penalty, {0, 100},
              "divides the logits of all tokens so far, of the prompt too; 1: none (1)");
  line.number("--presence-penalty", presence_penalty, {-100, 100},
              "taken from the logits of tokens that were written (0)");
  line.number("--frequency-penalty", frequency_penalty, {-100, 100},
              "the same for each time they were written (0)");
  line.count("--no-repeat-ngram", no_repeat_ngram, {0, kMany},
             "no N tokens in a row come twice, 0: any may (0)");
  line.number("--temperature", temperature, {0, 1e9}, "randomness; 0: always the likeliest token (0.8)");
  line.count("--top-k", top_k, {0, kMany}, "choose among the k likeliest tokens, 0: all (0)");
  line.number("--top-p", top_p, {0, 1}, "choose among the likeliest tokens of this probability (1)");
  line.number("--min-p", min_p, {0, 1}, "leave out tokens less likely than X times the likeliest (0)");
  line.heading("Where a text ends");
  line.texts("--stop", stop, "TEXT",
             "end before this text, which is not shown; \\n is a line break; may be repeated");
  line.texts("--stop-id", stop_id, "ID", "end at this token; may be repeated (end-of-text always ends)");
  line.heading("Options");
  line.text("--cache", cache, "TYPE",
            "keys and values of past tokens as f32, or as bf16 in half the memory (f32)");
}

GenerateOptions SamplerArguments::options(const LoadedModel& model) const {
  check_use(cache == "f32" || cache == "bf16", "--cache is '{}'; give f32 or bf16", printable(cache));
  GenerateOptions out;
  out.sampler = {.temperature = static_cast<float>(temperature),
                 .top_k = top_k,
                 .top_p = static_cast<float>(top_p),
                 .min_p = static_cast<float>(min_p),
                 .repetition_penalty = static_cast<float>(repetition_penalty),
                 .presence_penalty = static_cast<float>(presence_penalty),
                 .frequency_penalty = static_cast<float>(frequency_penalty),
                 .no_repeat_ngram = no_repeat_ngram,
                 .seed = seed};
  for (const std::string& list : logit_bias) parse_biases(list, out.sampler.logit_bias);
  // Rows of the model that stand for nothing in the tokenizer, as padded vocabularies have, are never
  // written.
  for (int64_t id = 0; id < model.config.vocabulary; ++id)
    if (id >= model.tokenizer->vocabulary() || !model.tokenizer->is_defined(static_cast<int32_t>(id)))
      out.sampler.logit_bias.push_back({static_cast<int32_t>(id), -std::numeric_limits<float>::infinity()});
  check_sampler(out.sampler, model.config.vocabulary);
  out.max_tokens = max_tokens;
  out.cache = cache == "bf16" ? DType::kBF16 : DType::kF32;
  out.stop_ids = model.text.stop_ids;
  if (model.tokenizer->end_of_text() >= 0) out.stop_ids.push_back(model.tokenizer->end_of_text());
  for (const std::string& id : stop_id)
    out.stop_ids.push_back(
        static_cast<int32_t>(parse_count("--stop-id", id, {0, model.config.vocabulary - 1})));
  return out;
}

std::vector<std::string> SamplerArguments::stop_strings() const {
  std::vector<std::string> out;
  for (const std::string& text : stop) out.push_back(unescaped(text));
  TextStreamer{out};  // throws for those that cannot be
  return out;
}

}  // namespace tril::cli
