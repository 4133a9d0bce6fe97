#include "tril/generate/conversation.h"

#include <algorithm>

#include "tril/base/error.h"

namespace tril {

std::vector<int32_t> Conversation::tokens_from(int64_t first) const {
  std::vector<int32_t> out;
  for (int64_t i = first; i < turns(); ++i) {
    const Turn& turn = turns_[static_cast<size_t>(i)];
    const std::vector<int32_t> before = template_.prompt(turn.user, i == first, system_).tokens;
    out.insert(out.end(), before.begin(), before.end());
    out.insert(out.end(), turn.tokens.begin(), turn.tokens.end());
  }
  return out;
}

std::vector<int32_t> Conversation::ask(std::string user, int64_t room) {
  check_use(!asked_, "conversation: the last question has no answer yet");
  turns_.push_back({std::move(user), {}, {}});
  asked_ = true;
  first_before_ = first_;
  int64_t size = 0;
  try {
    for (int64_t first = first_; first < turns(); ++first) {
      std::vector<int32_t> tokens = tokens_from(first);
      size = std::ssize(tokens);
      if (size + room > context_) continue;
      first_ = first;
      return tokens;
    }
  } catch (...) {
    give_up();  // a text that the tokenizer cannot say
    throw;
  }
  give_up();
  fail(ErrorKind::kUse,
       "the message has {} tokens with the system text, and an answer wants {} more: the model sees {}; "
       "say less at once",
       size, room, context_);
}

void Conversation::answered(std::string_view text, std::span<const int32_t> tokens) {
  check_use(asked_, "conversation: an answer to nothing");
  Turn& turn = turns_.back();
  turn.answer = template_.content_of(text);
  bool ended = false;
  for (const int32_t id : template_.stop_ids()) ended |= !tokens.empty() && tokens.back() == id;
  if (ended)
    turn.tokens.assign(tokens.begin(), tokens.end());
  else
    turn.tokens = template_.answer(template_.prompt(turn.user, turns() == 1, system_), turn.answer);
  asked_ = false;
}

void Conversation::give_up() {
  if (!asked_) return;
  turns_.pop_back();
  asked_ = false;
  first_ = first_before_;
}

bool Conversation::undo(std::string* user) {
  if (turns_.empty()) return false;
  if (user != nullptr) *user = turns_.back().user;
  turns_.pop_back();
  asked_ = false;
  first_ = 0;  // there may be room again
  return true;
}

void Conversation::reset() {
  turns_.clear();
  first_ = 0;
  asked_ = false;
}

std::vector<ChatMessage> Conversation::messages() const {
  std::vector<ChatMessage> out;
  if (!system_.empty()) out.push_back({"system", system_});
  for (const Turn& turn : turns_) {
    out.push_back({"user", turn.user});
    out.push_back({"assistant", turn.answer});
  }
  return out;
}

void Conversation::load(std::span<const ChatMessage> messages) {
  const std::string problem = messages_problem(messages);
  check_use(problem.empty(), "{}", problem);
  const bool has_system = !messages.empty() && messages.front().role == "system";
  const std::span<const ChatMessage> rest = messages.subspan(has_system ? 1 : 0);
  check_use(rest.size() % 2 == 0, "the last message is the user's and has no answer; remove it");
  std::vector<Turn> turns;
  const std::string system = has_system ? messages.front().content : std::string();
  for (size_t i = 0; i < rest.size(); i += 2) {
    const ChatTemplate::Prompt before = template_.prompt(rest[i].content, i == 0, system);
    turns.push_back({rest[i].content, rest[i + 1].content, template_.answer(before, rest[i + 1].content)});
  }
  reset();
  system_ = system;
  turns_ = std::move(turns);
}

}  // namespace tril
