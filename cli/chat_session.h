// One conversation of `tril chat`: what a line of the user does.
#pragma once

#include <string>

#include "tril/generate/conversation.h"
#include "tril/generate/generate.h"

namespace tril::cli {

struct ChatOptions {
  GenerateOptions generate;
  std::vector<std::string> stops;
  bool json = false;      // a JSON object for each answer
  bool terminal = false;  // somebody sees it
};

class ChatSession {
 public:
  ChatSession(const Transformer& model, const Tokenizer& tokenizer, Executor& executor,
              const ChatTemplate& chat_template, std::string system, ChatOptions options);

  // A command (/help lists them) or something to answer. False: to end. What goes wrong in a command or with
  // one message is told, and the conversation goes on; kNumerics is thrown.
  bool line(const std::string& text);
  // Standard output is gone.
  bool output_gone() const { return output_gone_; }
  int failure() const { return failure_; }  // the exit code of the first thing that went wrong, or 0
  void save(const std::string& file) const;
  void load(const std::string& file);

 private:
  bool command(std::string_view word, const std::string& rest);
  void answer(std::string user);
  void say(const std::string& text);
  void note(const std::string& text) const;
  void report(const std::string& answer, const char* finish, int64_t tokens, int64_t tokens_read);

  const Transformer& model_;
  const Tokenizer& tokenizer_;
  const ChatTemplate& template_;
  ChatOptions options_;
  Conversation conversation_;
  Decoder decoder_;
  int64_t answers_ = 0, told_left_out_ = 0;
  bool output_gone_ = false, at_begin_ = true;
  int failure_ = 0;
};

}  // namespace tril::cli
