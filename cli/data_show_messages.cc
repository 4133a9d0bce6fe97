#include "cli/data_show_messages.h"

#include <fmt/format.h>

#include <cstdio>

#include "cli/chat_model.h"
#include "cli/data_show_batch.h"
#include "cli/format.h"
#include "tril/base/error.h"
#include "tril/containers/json.h"
#include "tril/data/packing.h"

namespace tril::cli {
namespace {

Tokenizer tokenizer_of(const ShowMessages& a, std::string& stored_template) {
  check_use(a.from.empty() != a.tokenizer.empty(),
            "{}: conversations are shown as a model reads them; give --from MODEL, or --tokenizer FILE",
            one_line(a.file));
  if (!a.from.empty()) {
    StoredModel model = open_model(a.from);
    check_data(model.tokenizer != nullptr, "--from {}: the model has no tokenizer", one_line(a.from));
    stored_template = model.text.chat_template;
    return std::move(*model.tokenizer);
  }
  return a.tokenizer == "byte" ? Tokenizer::bytes(/*with_end_of_text=*/true) : Tokenizer::load(a.tokenizer);
}

void show_one(const SourceConversation& conversation, int64_t count, const ShowMessages& a,
              const ChatTemplate& chat_template, const Tokenizer& tokenizer) {
  const ChatTemplate::Encoded encoded = chat_template.encode(conversation.messages);
  int64_t learned = 0;
  for (const uint8_t one : encoded.learned) learned += one;
  if (a.json) {
    std::puts(to_text({{"conversation", a.conversation},
                       {"place", conversation.name},
                       {"template", chat_template.name()},
                       {"tokens", encoded.tokens},
                       {"learned", encoded.learned},
                       {"text", chat_template.render(conversation.messages, /*ask=*/false)}})
                  .c_str());
    return;
  }
  fmt::print("conversation {} of {}, {}: {} tokens, {} of them learned\n", a.conversation,
             format_count(count), one_line(conversation.name), format_count(std::ssize(encoded.tokens)),
             format_count(learned));
  for (size_t begin = 0; begin < encoded.tokens.size();) {
    std::string text;
    size_t t = begin;
    for (; t < encoded.tokens.size() && encoded.learned[t] == encoded.learned[begin]; ++t)
      text += (t > begin ? "|" : "") + shown_token(tokenizer, encoded.tokens[t]);
    fmt::print("  {:<8} {}\n", encoded.learned[begin] != 0 ? "learned" : "read", one_line(text));
    begin = t;
  }
}

}  // namespace

bool is_messages_file(const std::string& path) {
  std::error_code missing;
  if (!std::filesystem::is_regular_file(path, missing)) return false;
  return holds_conversations({.path = path, .format = format_of_name(path)}, {});
}

void show_messages(const ShowMessages& a) {
  std::string stored;
  const Tokenizer tokenizer = tokenizer_of(a, stored);
  const ChosenTemplate chosen = choose_chat_template(a.chat_template, stored, tokenizer);
  const ChatTemplate chat_template(chosen.name, tokenizer);
  const std::vector<SourceConversation> conversations =
      read_conversations({{.path = a.file, .format = SourceFormat::kJsonLines}}, {});
  const auto count = std::ssize(conversations);
  check_use(a.batch >= 0 || a.conversation < count, "--document {}: {} has {}, counted from 0",
            a.conversation, one_line(a.file), count);
  const auto print_template = [&] {
    if (!a.json) fmt::print("template {}\n", one_line(describe(chosen, tokenizer)));
  };
  if (a.batch < 0) {
    print_template();
    return show_one(conversations[static_cast<size_t>(a.conversation)], count, a, chat_template, tokenizer);
  }
  const auto corpus = pack_conversations(conversations, chat_template, tokenizer, 0.1, a.context);
  check_use(!a.validation || corpus->validation_rows != nullptr,
            "--validation: nothing is for validation here");
  print_template();
  PackedSampler sampler(a.validation ? *corpus->validation_rows : *corpus->train_rows, a.rows, a.seed,
                        sampling_of(a.sampling));
  print_batch(sampler.sample_at({checked_multiply(a.batch, a.rows)}), tokenizer, a.json);
}

}  // namespace tril::cli
