#include "cli/chat_session.h"

#include <algorithm>
#include <cstdio>

#include "cli/format.h"
#include "cli/signals.h"
#include "tril/base/error.h"
#include "tril/base/files.h"
#include "tril/containers/json.h"
#include "tril/data/messages.h"
#include "tril/generate/text_streamer.h"

namespace tril::cli {
namespace {

constexpr const char* kHelp =
    "/undo           take back the last question and its answer\n"
    "/retry          answer the last question again, in other words\n"
    "/reset          forget the conversation; the system text stays\n"
    "/system TEXT    the system text from here on; - : none; without TEXT it is shown\n"
    "/save FILE      write the conversation as JSON messages\n"
    "/load FILE      go on with one that was saved\n"
    "/quit           end (also Ctrl-D)\n"
    "Ctrl-C stops an answer. A line that begins with // is a message that begins with /.";

bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

}  // namespace

ChatSession::ChatSession(const Transformer& model, const Tokenizer& tokenizer, Executor& executor,
                         const ChatTemplate& chat_template, std::string system, ChatOptions options)
    : model_(model),
      tokenizer_(tokenizer),
      template_(chat_template),
      options_(std::move(options)),
      conversation_(chat_template, model.config().context, std::move(system)),
      decoder_(model, executor, options_.generate.cache) {
  for (const int32_t id : template_.stop_ids()) options_.generate.stop_ids.push_back(id);
  for (const std::string& stop : template_.stop_strings()) options_.stops.push_back(stop);
}

bool ChatSession::line(const std::string& text) {
  if (std::ranges::all_of(text, is_space)) return true;
  try {
    if (!text.starts_with('/')) {
      answer(text);
    } else if (text.starts_with("//")) {
      answer(text.substr(1));
    } else {
      const size_t space = std::min(text.find(' '), text.size());
      const size_t rest = std::min(text.find_first_not_of(' ', space), text.size());
      return command(std::string_view(text).substr(0, space), text.substr(rest));
    }
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kNumerics) throw;
    if (failure_ == 0) failure_ = static_cast<int>(error.kind());
    if (options_.json) std::printf("%s\n", to_text(Json{{"error", error.what()}}).c_str());
    note(error.what());
  }
  return true;
}

bool ChatSession::command(std::string_view word, const std::string& rest) {
  if (word == "/quit" || word == "/exit") return false;
  if (word == "/help") {
    std::fprintf(stderr, "%s\n", kHelp);
  } else if (word == "/reset") {
    conversation_.reset();
    note("a new conversation");
  } else if (word == "/undo") {
    note(conversation_.undo() ? fmt::format("taken back; {} left", conversation_.turns())
                              : "nothing to take back");
  } else if (word == "/retry") {
    std::string user;
    if (conversation_.undo(&user))
      answer(std::move(user));
    else
      note("nothing was asked yet");
  } else if (word == "/system") {
    if (rest == "-") {
      conversation_.set_system("");
    } else if (!rest.empty()) {
      tokenizer_.encode(rest);  // throws for what cannot be said, while the old text is still there
      conversation_.set_system(rest);
    }
    const std::string& now = conversation_.system();
    note(now.empty() ? "there is no system text" : "system: " + now);
  } else if (word == "/save" || word == "/load") {
    check_use(!rest.empty(), "{}: give a FILE", word);
    word == "/save" ? save(rest) : load(rest);
  } else {
    note(fmt::format("unknown command {}; /help lists them, and // begins a message with /", word));
  }
  return true;
}

void ChatSession::answer(std::string user) {
  const GenerateOptions& o = options_.generate;
  const int64_t context = model_.config().context;
  const int64_t room = std::clamp<int64_t>(std::min(o.max_tokens, context / 4), 1, context);
  const std::vector<int32_t> tokens = conversation_.ask(std::move(user), room);
  if (conversation_.left_out() > told_left_out_)
    note(fmt::format("the oldest {} of {} questions are beyond the context and are left out",
                     conversation_.left_out(), conversation_.turns()));
  told_left_out_ = conversation_.left_out();

  SamplerOptions sampling = o.sampler;
  sampling.seed += static_cast<uint64_t>(answers_++);
  Sampler sampler(sampling, tokens);
  TextStreamer stream(options_.stops);
  std::string text;
  std::vector<int32_t> written;
  const char* finish = "length";
  const int64_t read_before = decoder_.tokens_read(),
                most = std::min(o.max_tokens, context - std::ssize(tokens));
  const auto show = [&](const std::string& more) {
    text += more;
    say(more);
  };
  try {
    std::span<const float> logits = decoder_.become(tokens);
    const int64_t read = decoder_.tokens_read() - read_before;
    while (std::ssize(written) < most && !output_gone_) {
      if (interrupts() > 0) {
        finish = "interrupt";
        break;
      }
      const int32_t id = sampler.next(logits);
      written.push_back(id);
      if (std::ranges::find(o.stop_ids, id) != o.stop_ids.end()) {
        finish = "stop_id";
        break;
      }
      show(stream.push(tokenizer_.token_bytes(id)));
      if (stream.stopped()) {
        finish = "stop";
        break;
      }
      if (std::ssize(written) < most) logits = decoder_.append({&written.back(), 1});
    }
    show(stream.finish());
    conversation_.answered(text, written);
    report(template_.content_of(text), finish, std::ssize(written), read);
  } catch (...) {
    conversation_.give_up();
    throw;
  }
}

// Without the space that a template puts before an answer.
void ChatSession::say(const std::string& text) {
  if (options_.json || text.empty()) return;
  std::string_view shown = text;
  while (at_begin_ && !shown.empty() && is_space(shown.front())) shown.remove_prefix(1);
  at_begin_ = at_begin_ && shown.empty();
  output_gone_ = output_gone_ || std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size() ||
                 std::fflush(stdout) != 0;
}

void ChatSession::report(const std::string& answer, const char* finish, int64_t tokens, int64_t tokens_read) {
  at_begin_ = true;
  std::string end = "\n";
  if (options_.json)
    end = to_text({{"role", "assistant"},
                   {"content", answer},
                   {"finish", finish},
                   {"tokens", tokens},
                   {"prompt_tokens_read", tokens_read},
                   {"questions_left_out", conversation_.left_out()}}) +
          "\n";
  output_gone_ = output_gone_ || std::fputs(end.c_str(), stdout) < 0 || std::fflush(stdout) != 0;
  if (options_.terminal && finish == std::string_view("length"))
    note("cut: --max-tokens or the end of the context");
}

void ChatSession::note(const std::string& text) const {
  std::fprintf(stderr, "[%s]\n", one_line(text).c_str());
}

void ChatSession::save(const std::string& file) const {
  check_use(conversation_.turns() > 0, "/save: nobody has answered yet");
  std::vector<ChatMessage> there;
  check_use(!std::filesystem::is_regular_file(file) || read_messages(read_text_file(file), there).empty(),
            "/save: {} is there and holds no conversation; give another FILE", file);
  Json messages = Json::array();
  for (const ChatMessage& message : conversation_.messages())
    messages.push_back({{"role", message.role}, {"content", message.content}});
  write_file_atomic(file, to_text({{"messages", messages}, {"template", template_.name()}}, 2) + "\n");
  note(fmt::format("{} messages in {}", messages.size(), file));
}

void ChatSession::load(const std::string& file) {
  std::vector<ChatMessage> messages;
  const std::string problem = read_messages(read_text_file(file), messages);
  check_data(problem.empty(), "{}: {}", file, problem);
  try {
    conversation_.load(messages);
  } catch (const Error& error) {
    throw Error(ErrorKind::kData, file + ": " + error.what());
  }
  note(fmt::format("{} questions from {}", conversation_.turns(), file));
}

}  // namespace tril::cli
