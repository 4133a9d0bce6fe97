// Chat templates: how the messages of a conversation become one text, and one sequence of tokens.
//
// What stands around a message (`<|im_start|>user\n` ... `<|im_end|>\n`) becomes the special tokens that the
// tokenizer has, else plain text, as the tutorials write it. What is in a message is text: a special token
// that is spelled out in it stays text, so that nobody speaks in another's place.
//
//   chatml     ChatML (OpenAI 2023), as Qwen's and SmolLM's
//   llama2     Touvron et al. "Llama 2" (2023), as its model card
//   llama3     Meta's model card, "Llama 3 instruct"
//   zephyr     Tunstall et al. (2023), as TinyLlama's
//   mistral    the model card of Mistral 7B Instruct
//   gemma      Google's model card, "Formatting"
//   tutorial   markers in plain text, and end-of-text behind each message
//   nanochat   that program's
//   plain      "User:" and "Assistant:", for models that were never told of any other
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/text/chat_template_table.h"
#include "tril/text/tokenizer.h"

namespace tril {

struct ChatMessage {
  std::string role;  // "system", "user" or "assistant"
  std::string content;
};

// What is wrong with a conversation, or nothing: at most one system message, at the begin; then user and
// assistant in turns, the user first.
std::string messages_problem(std::span<const ChatMessage> messages);

class ChatTemplate {
 public:
  // The tokenizer must outlive it. Throws kUse listing the names.
  ChatTemplate(std::string_view name, const Tokenizer& tokenizer);

  const std::string& name() const { return table_.name; }
  // The tokens of its own that the tokenizer has no id for: they are written as plain text.
  std::vector<std::string> missing_tokens() const;

  // What is read before an answer.
  struct Prompt {
    std::vector<int32_t> tokens;
    std::string open;  // the text behind the last special token: the answer goes on from it
  };
  // `first` begins a conversation, with the system text unless that is empty; else what ends the answer
  // before is part of it.
  Prompt prompt(std::string_view user, bool first, std::string_view system = {}) const;
  // What is learned of an answer: its tokens, and those that end it.
  std::vector<int32_t> answer(const Prompt& prompt, std::string_view content) const;

  struct Encoded {
    std::vector<int32_t> tokens;
    std::vector<uint8_t> learned;  // of each token: 1 in what the assistant says, its end included
  };
  // Throws kUse for what messages_problem() names; kData for text the tokenizer cannot encode.
  Encoded encode(std::span<const ChatMessage> messages) const;
  // The text; with `ask`, and what stands before an answer.
  std::string render(std::span<const ChatMessage> messages, bool ask) const;

  // What ends an answer: ids, and strings where the tokenizer has no token for it.
  std::vector<int32_t> stop_ids() const;
  std::vector<std::string> stop_strings() const;
  // What a model wrote, as the content of a message: without the spaces that the template puts around it.
  std::string content_of(std::string_view written) const;

  // The same as a template in Jinja, for Hugging Face's chat_template.
  std::string jinja() const;

 private:
  struct Piece {
    std::string_view text;
    bool is_marker;
  };
  class Writer;
  std::vector<Piece> prompt_pieces(std::string_view user, bool first, std::string_view system) const;

  ChatTemplateTable table_;
  const Tokenizer& tokenizer_;
};

}  // namespace tril
