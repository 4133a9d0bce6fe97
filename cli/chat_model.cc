#include "cli/chat_model.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril::cli {
ChosenTemplate choose_chat_template(const std::string& asked, const std::string& stored,
                                    const Tokenizer& tokenizer) {
  if (!asked.empty()) return {ChatTemplate(asked, tokenizer).name(), "as asked for"};
  if (!stored.empty()) {
    const std::string name = recognise_chat_template(stored);
    check_use(!name.empty(),
              "the model has a chat template that is not known here; add --template NAME, one of {}",
              chat_template_names());
    return {name, "recognised in the model's own"};
  }
  for (const ChatTemplateTable& table : chat_template_tables())
    if (!table.tokens.empty() && ChatTemplate(table.name, tokenizer).missing_tokens().empty())
      return {table.name, "the model has none, but the tokens of this one"};
  return {"plain", "the model has none"};
}

ModelText model_text_of(const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  ModelText text{.chat_template = chat_template.jinja(), .stop_ids = chat_template.stop_ids()};
  const int32_t end = tokenizer.end_of_text();
  if (end >= 0 && std::ranges::find(text.stop_ids, end) == text.stop_ids.end()) text.stop_ids.push_back(end);
  return text;
}

std::string describe(const ChosenTemplate& chosen, const Tokenizer& tokenizer) {
  std::string out = fmt::format("{} ({})", chosen.name, chosen.why);
  const std::vector<std::string> missing = ChatTemplate(chosen.name, tokenizer).missing_tokens();
  if (!missing.empty())
    out += fmt::format("; plain text, not tokens, in this tokenizer: {}", fmt::join(missing, " "));
  return out;
}

}  // namespace tril::cli
