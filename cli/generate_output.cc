#include "cli/generate_output.h"

#include <cstdio>

namespace tril::cli {

GenerateOutput::GenerateOutput(const Tokenizer& tokenizer, std::vector<WrittenText> texts,
                               std::vector<std::string> stops, bool json, int64_t log_probabilities,
                               bool first)
    : tokenizer_(tokenizer), json_(json), first_(first), log_probabilities_(log_probabilities) {
  for (WrittenText& text : texts) {
    texts_.push_back({.about = std::move(text), .stream = TextStreamer(stops)});
    if (!json_) texts_.back().shown = texts_.back().about.prompt;
  }
  if (!texts_.empty()) write(texts_.front());
}

bool GenerateOutput::token(size_t index, int32_t id, std::span<const float> logits, bool is_stop_id) {
  Text& text = texts_[index];
  if (json_) {
    text.tokens.push_back(id);
    if (log_probabilities_ >= 0) {
      Json entry = probability_json(log_probability(logits, id));
      Json others = Json::array();
      for (const TokenProbability& token : likeliest(logits, log_probabilities_))
        others.push_back(probability_json(token));
      if (log_probabilities_ > 0) entry["likeliest"] = others;
      text.probabilities.push_back(entry);
    }
  }
  if (is_stop_id) {
    text.finish = "stop_id";
    return false;
  }
  text.shown += text.stream.push(tokenizer_.token_bytes(id));
  if (text.stream.stopped()) text.finish = "stop";
  if (!json_ && index == current_) write(text);
  return !text.stream.stopped() && !gone_;
}

void GenerateOutput::end(Text& text) {
  text.shown += text.stream.finish();
  if (json_) return write_json(text);
  write(text);
  if (text.last != '\n') put("\n");
}

// As text; a line of --- stands between two.
void GenerateOutput::write(Text& text) {
  if (json_) return;
  if (!started_ && !first_) put("---\n");
  first_ = false;
  started_ = true;
  if (text.shown.empty()) return;
  text.last = text.shown.back();
  put(text.shown);
  text.shown.clear();
}

void GenerateOutput::finish() {
  for (; current_ < texts_.size(); ++current_) {
    end(texts_[current_]);
    started_ = false;
  }
}

void GenerateOutput::put(std::string_view bytes) {
  gone_ =
      gone_ || std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0;
}

Json GenerateOutput::probability_json(const TokenProbability& token) const {
  return {{"id", token.id},
          {"text", std::string(tokenizer_.token_bytes(token.id))},
          {"log_probability_nats", token.log_probability}};
}

void GenerateOutput::write_json(const Text& text) {
  Json line = {{"prompt_number", text.about.prompt_number},
               {"sample", text.about.sample},
               {"seed", text.about.seed},
               {"prompt", text.about.prompt},
               {"text", text.shown},
               {"tokens", text.tokens},
               {"finish", text.finish}};
  if (text.stream.stopped()) line["stop"] = std::string(text.stream.stop_string());
  if (log_probabilities_ >= 0) line["log_probabilities"] = text.probabilities;
  put(to_text(line) + "\n");
}

}  // namespace tril::cli
