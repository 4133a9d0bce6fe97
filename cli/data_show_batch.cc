#include "cli/data_show_batch.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/format.h"
#include "tril/containers/json.h"

namespace tril::cli {
namespace {

// Where in the row each document begins, its positions, and which targets count. Learned targets stand on
// lines of their own.
void print_row(const Batch& batch, int64_t row, const Tokenizer& tokenizer) {
  const int64_t time = batch.time, first = row * time;
  fmt::print("row {}:\n", row);
  const auto document = [&](int64_t at) {
    return batch.documents != nullptr ? batch.documents[first + at] : 0;
  };
  const auto counts = [&](int64_t at) {
    return batch.loss_mask == nullptr || batch.loss_mask[first + at] != 0;
  };
  for (int64_t t = 0; t < time;) {
    int64_t end = t + 1;
    while (end < time && document(end) == document(t)) ++end;
    if (document(t) < 0) {
      fmt::print("  padding: {} tokens\n", end - t);
      t = end;
      continue;
    }
    int64_t counted = 0;
    std::string text;
    for (int64_t at = t; at < end; ++at) {
      counted += counts(at);
      text += (at > t ? "|" : "") + shown_token(tokenizer, batch.tokens[first + at]);
    }
    const int64_t position = batch.positions != nullptr ? batch.positions[first + t] : t;
    fmt::print("  document {}, positions {} to {}, {} of {} targets count\n    {}\n", document(t), position,
               position + end - t - 1, counted, end - t, one_line(text));
    if (counted == end - t || counted == 0) {
      fmt::print("    next: {}\n", one_line(shown_token(tokenizer, batch.targets[first + end - 1])));
    } else {
      for (int64_t at = t; at < end; ++at) {
        if (!counts(at)) continue;
        std::string learned = shown_token(tokenizer, batch.targets[first + at]);
        while (at + 1 < end && counts(at + 1))
          learned += "|" + shown_token(tokenizer, batch.targets[first + ++at]);
        fmt::print("    learned: {}\n", one_line(learned));
      }
    }
    t = end;
  }
}

}  // namespace

std::string shown_token(const Tokenizer& tokenizer, int32_t id) {
  for (const SpecialToken& token : tokenizer.specials())
    if (token.id == id) return token.content;
  std::string out;
  for (const char c : tokenizer.token_bytes(id)) out += c == '\n' ? "\\n" : std::string(1, c);
  return out;
}

void print_batch(const Batch& batch, const Tokenizer& tokenizer, bool json) {
  if (!json) {
    for (int64_t row = 0; row < batch.batch; ++row) print_row(batch, row, tokenizer);
    return;
  }
  const auto rows = static_cast<size_t>(batch.rows());
  const auto list = [&](const auto* values) {
    return values != nullptr ? Json(std::vector<int32_t>(values, values + rows)) : Json();
  };
  std::puts(to_text({{"batch", batch.batch},
                     {"time", batch.time},
                     {"tokens", list(batch.tokens)},
                     {"targets", list(batch.targets)},
                     {"documents", list(batch.documents)},
                     {"positions", list(batch.positions)},
                     {"loss_mask", list(batch.loss_mask)},
                     {"counted_targets", batch.counted_targets}})
                .c_str());
}

}  // namespace tril::cli
