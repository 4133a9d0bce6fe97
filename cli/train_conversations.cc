#include "cli/train_conversations.h"

#include <algorithm>

#include "cli/chat_model.h"
#include "cli/format.h"
#include "cli/train_data.h"
#include "tril/base/error.h"

namespace tril::cli {
namespace {

constexpr int64_t kEpochs = 3;
constexpr int64_t kLeastTokens = 200'000;  // of a run whose length nobody gave

// What the conversations hold, a document each, and the words of the template: all that a tokenizer must
// write.
std::vector<Document> documents_of(const std::vector<SourceConversation>& conversations) {
  std::vector<Document> out;
  for (const SourceConversation& conversation : conversations) {
    out.push_back({conversation.name, {}});
    for (const ChatMessage& message : conversation.messages) out.back().text += message.content + "\n";
  }
  return out;
}

// Every template, without a tokenizer's tokens, in one short conversation.
std::string template_text(const std::string& name) {
  const Tokenizer bytes = Tokenizer::bytes(/*with_end_of_text=*/false);
  const ChatMessage messages[] = {{"system", "\n"}, {"user", "\n"}, {"assistant", "\n"}, {"user", "\n"}};
  return ChatTemplate(name, bytes).render(messages, /*ask=*/true);
}

Tokenizer make_tokenizer(const TrainOptions& options, const std::vector<Document>& documents) {
  const std::string& kind = options.tokenizer;
  if (kind == "byte") return Tokenizer::bytes(/*with_end_of_text=*/true);
  if (kind != "bpe" && kind != "char") return Tokenizer::load(kind);
  const std::string& name = options.chat_template;
  const std::string words = template_text(name.empty() ? "plain" : name);
  std::vector<std::string_view> texts = {words};
  for (const Document& document : documents) texts.emplace_back(document.text);
  return kind == "char" ? Tokenizer::characters(texts, /*with_end_of_text=*/true)
                        : Tokenizer::train_bpe(texts, options.vocab);
}

// Nine conversations of ten fit whole.
int64_t context_for(const std::vector<SourceConversation>& conversations, const ChatTemplate& chat_template) {
  std::vector<int64_t> lengths;
  for (const SourceConversation& conversation : conversations)
    lengths.push_back(std::ssize(chat_template.encode(conversation.messages).tokens));
  const auto most = lengths.begin() + std::ssize(lengths) * 9 / 10;
  std::nth_element(lengths.begin(), most, lengths.end());
  return std::clamp<int64_t>(round_up(*most, 16), 32, 1024);
}

}  // namespace

bool are_conversations(const std::vector<SourceFile>& files, const SourceOptions& options) {
  const auto holds = [&](const SourceFile& file) { return holds_conversations(file, options); };
  const auto first = std::ranges::find_if(files, holds);
  if (first == files.end()) return false;
  const auto other = std::ranges::find_if_not(files, holds);
  check_use(other == files.end(),
            "{} holds conversations and {} does not; train on one kind first, then on the other with --from",
            one_line(first->path.string()), other == files.end() ? "" : one_line(other->path.string()));
  return true;
}

void read_conversation_data(const TrainArguments& arguments, const std::vector<SourceFile>& files,
                            const SourceOptions& options, TrainRun& run) {
  TrainOptions& o = run.options;
  const std::vector<SourceConversation> conversations =
      read_conversations(files, options, &run.skipped_broken);
  const std::vector<Document> documents = documents_of(conversations);
  take_text(arguments, documents, text_facts(documents), run);
  if (run.tokenizer == nullptr)
    run.tokenizer = std::make_unique<Tokenizer>(make_tokenizer(run.options, documents));
  // A run that goes on has the name among its options.
  const std::string stored = run.start_model ? run.start_model->text.chat_template : "";
  const ChosenTemplate chosen = choose_chat_template(o.chat_template, stored, *run.tokenizer);
  o.chat_template = chosen.name;
  run.chat_template = describe(chosen, *run.tokenizer);
  if (!arguments.given.contains("sampling") && !run.checkpoint) o.sampling = "epochs";
  const ChatTemplate chat_template(chosen.name, *run.tokenizer);
  if (o.context == 0) o.context = context_for(conversations, chat_template);
  run.corpus = conversation_corpus(
      pack_conversations(conversations, chat_template, *run.tokenizer, o.val_fraction, o.context));
  run.first_word = conversations.front().messages.front().content;
  run.least_tokens =
      std::max(kEpochs * run.corpus.conversations->train_rows->count() * o.context, kLeastTokens);
}

std::string conversation_lines(const TrainRun& run) {
  const ConversationCorpus& c = *run.corpus.conversations;
  std::string out =
      fmt::format("{:<9} {} of {} tokens are learned: what the assistant says; rows of {}: {}", "answers",
                  format_count(c.train.learned_tokens), format_count(std::ssize(c.train.tokens)),
                  c.train_rows->time(), format_count(c.train_rows->count()));
  if (c.validation.count() == 0) out += "; none is for validation";
  if (c.cut > 0)
    out += fmt::format("; {} longer than the context, cut by {} tokens", format_count(c.cut),
                       format_count(c.cut_tokens));
  if (c.unanswered > 0) out += fmt::format("; {} left out, cut before an answer", format_count(c.unanswered));
  return out + fmt::format("\n{:<9} {}\n", "template", one_line(run.chat_template));
}

}  // namespace tril::cli
