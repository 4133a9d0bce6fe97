// Conversation: the turns of a chat, and the tokens that a model reads before it answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tril/text/chat_template.h"

namespace tril {

// The system text stands at the begin, once. When the tokens would not leave room for an answer, the oldest
// turns are left out whole. An answer keeps the tokens it was written in, so that what a model reads next
// goes on from what it has read and written: only new tokens have to be read, until turns are left out.
class Conversation {
 public:
  // The template must outlive it. `context`: tokens that the model sees.
  Conversation(const ChatTemplate& chat_template, int64_t context, std::string system = {})
      : template_(chat_template), context_(context), system_(std::move(system)) {}

  // The tokens up to the place where the answer to `user` begins, with at least `room` tokens of the context
  // behind them. Throws kUse, and changes nothing, if even this turn alone is too long.
  std::vector<int32_t> ask(std::string user, int64_t room);
  // What the model wrote after ask(). `tokens` are kept if they end with the template's own end; else (the
  // answer was cut, or ended by a string) the text is encoded anew, and ended. Throws kUse before ask().
  void answered(std::string_view text, std::span<const int32_t> tokens);
  // Takes back an ask() that has no answer.
  void give_up();

  // Removes the last turn and gives back what the user said; nothing, and false, if there is none.
  bool undo(std::string* user = nullptr);
  void reset();  // the system text stays
  void set_system(std::string system) { system_ = std::move(system); }
  const std::string& system() const { return system_; }
  int64_t turns() const { return std::ssize(turns_); }
  int64_t left_out() const { return first_; }  // the oldest turns, which the model does not read any more

  std::vector<ChatMessage> messages() const;  // all turns, those left out too
  // Throws kUse for what messages_problem() names, and for a last message without an answer.
  void load(std::span<const ChatMessage> messages);

 private:
  struct Turn {
    std::string user, answer;
    std::vector<int32_t> tokens;  // of the answer, its end included; none yet: it is asked
  };
  std::vector<int32_t> tokens_from(int64_t first) const;

  const ChatTemplate& template_;
  int64_t context_;
  std::string system_;
  std::vector<Turn> turns_;
  int64_t first_ = 0, first_before_ = 0;  // now, and before the last ask()
  bool asked_ = false;
};

}  // namespace tril
