// Sampling: which token comes next. From the model's logits l (V):
//
//   1  logit bias          l_i += bias_i; -inf rules a token out
//   2  repetition penalty  of tokens in the prompt and in what was written: divided by r where positive, else
//                          multiplied.
//                          Keskar et al. "CTRL" (2019), section 4.1; both signs as in Hugging Face's
//   3  presence, frequency l_i -= presence + frequency * (times written), of tokens that were written; the
//                          prompt does not count. OpenAI's API reference, "frequency and presence penalties"
//   4  no repeated n-gram  a token is out that would end a run of n tokens that stands in the prompt or in
//                          what was written. Paulus et al. (2017), section 2.5. Where that leaves none it
//                          does nothing
//   5  temperature         p_i ~ exp(l_i / temperature); 0: the highest, the lowest id on ties
//   6  top-k               the k most likely, the lower ids on ties
//   7  top-p               of those the shortest run of the most likely whose share reaches top_p, one at
//                          least.
//                          Holtzman et al. "The curious case of neural text degeneration" (2020), section 3.1
//   8  min-p               of those the ones at least min_p times as likely as the most likely.
//                          Nguyen et al. "Turning up the heat" (2024), section 3
//   9  one draw, a function of the seed and the number of tokens written before
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

namespace tril {

struct TokenBias {
  int32_t id = 0;
  float bias = 0;  // -inf: never
};

struct SamplerOptions {
  float temperature = 0.8f;                // 0: greedy, the lowest id on ties
  int64_t top_k = 0;                       // 0: all
  float top_p = 1.0f;                      // in (0, 1]
  float min_p = 0;                         // in [0, 1]
  float repetition_penalty = 1;            // in (0, 100]; 1: none, above: fewer repetitions
  float presence_penalty = 0;              // in [-100, 100]
  float frequency_penalty = 0;             // in [-100, 100]
  int64_t no_repeat_ngram = 0;             // n; 0: any may come again
  std::vector<TokenBias> logit_bias = {};  // of one id all are added
  uint64_t seed = 1;
};

// Throws kUse naming the option, its value and what is possible. `vocabulary`: of logit_bias's ids, if known.
void check_sampler(const SamplerOptions& options, int64_t vocabulary = -1);

// Draws from logits (V) without a past: no penalty and no n-gram. `index` numbers the draw. Throws kNumerics
// with the step when logits are not finite; kUse where the bias rules all tokens out.
int32_t sample_token(std::span<const float> logits, const SamplerOptions& options, uint64_t index);

// The tokens of one sequence, one after another.
class Sampler {
 public:
  // The prompt is what the repetition penalty and the n-grams see of the past. `index`: of the first draw.
  Sampler(const SamplerOptions& options, std::span<const int32_t> prompt, uint64_t index = 0);
  // Draws the next token and remembers it; as sample_token().
  int32_t next(std::span<const float> logits);  // (V)

 private:
  struct Candidate {
    double weight;  // not normalised; of the highest 1
    int32_t id;
  };
  void remember_ngram(int32_t token);
  void adjust();
  void rule_out_repeated_ngrams();
  int32_t draw();
  void cut_to_most_likely();
  void sort_likeliest(size_t count);

  SamplerOptions options_;
  int64_t written_ = 0;
  std::unordered_map<int32_t, int64_t> times_;                      // written; 0: in the prompt alone
  std::vector<int32_t> last_;                                       // n - 1 tokens
  std::map<std::vector<int32_t>, std::vector<int32_t>> followers_;  // of n - 1 tokens
  std::vector<double> logits_;                                      // (V): adjusted
  std::vector<Candidate> candidates_;
};

// Of the model itself, before any of the above: log p_i = l_i - log sum_j exp(l_j).
struct TokenProbability {
  int32_t id = 0;
  double log_probability = 0;  // nats
};
TokenProbability log_probability(std::span<const float> logits, int32_t id);
// The `count` most likely, the lower ids first on ties.
std::vector<TokenProbability> likeliest(std::span<const float> logits, int64_t count);

}  // namespace tril
