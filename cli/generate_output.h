// What `tril generate` writes: texts one after another, each whole, the first unfinished one as it grows; or
// a JSON object a line.
#pragma once

#include <string>
#include <vector>

#include "tril/containers/json.h"
#include "tril/generate/generate.h"
#include "tril/generate/text_streamer.h"
#include "tril/text/tokenizer.h"

namespace tril::cli {

struct WrittenText {
  std::string prompt;
  int64_t prompt_number = 0, sample = 0;
  uint64_t seed = 0;
};

class GenerateOutput {
 public:
  // `log_probabilities` >= 0: with --json, of each token and of so many others. `first`: no text was written
  // before.
  GenerateOutput(const Tokenizer& tokenizer, std::vector<WrittenText> texts, std::vector<std::string> stops,
                 bool json, int64_t log_probabilities, bool first);

  // False ends the text: a stop string, or nobody reads the output any more.
  bool token(size_t text, int32_t id, std::span<const float> logits, bool is_stop_id);
  void finish();
  bool gone() const { return gone_; }

 private:
  struct Text {
    WrittenText about;
    TextStreamer stream;
    std::string shown;  // not yet written (as text), or all of it (JSON)
    std::string finish = "length";
    Json tokens = Json::array(), probabilities = Json::array();
    char last = 0;
  };
  void end(Text& text);
  void write(Text& text);
  void put(std::string_view bytes);
  void write_json(const Text& text);
  Json probability_json(const TokenProbability& token) const;

  const Tokenizer& tokenizer_;
  std::vector<Text> texts_;
  bool json_, first_;
  int64_t log_probabilities_;
  size_t current_ = 0;  // the first that is not written whole
  bool started_ = false, gone_ = false;
};

}  // namespace tril::cli
