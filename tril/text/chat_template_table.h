// The known chat templates: what stands around each message.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

// {bos} and {eos} stand for the tokenizer's tokens at the begin and the end of a text.
struct ChatTemplateTable {
  std::string name;
  std::string begin = {};  // before everything
  std::string before_system = {}, after_system = {};
  bool system_in_user = false;  // the system text stands within the first user message
  std::string before_user = {}, after_user = {};
  std::string before_assistant = {};     // asks for an answer
  std::string lead = {}, end = {};       // around an answer, and learned with it
  std::string after_assistant = {};      // behind it, and not learned
  bool trims = false;                    // spaces and line breaks around a message are left out
  std::string bos = {}, eos = {};        // as this template's own models spell them
  std::vector<std::string> tokens = {};  // that its own models have a token for
  std::vector<std::string> stops = {};   // what a model that was not trained with it may go on to write
};

std::span<const ChatTemplateTable> chat_template_tables();
std::string chat_template_names();  // "chatml, llama2, ..."

// The name of the known template that a Jinja text writes, by strings that no other has; empty: unknown. What
// the text does besides (tools, dates, checks) is not looked at.
std::string recognise_chat_template(std::string_view jinja);

}  // namespace tril
