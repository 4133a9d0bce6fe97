#include "tril/text/chat_template.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect_error.h"
#include "tests/text/chat_tokenizer.h"

namespace tril {
namespace {

using testing::chat_tokenizer;
using testing::expect_error;
using Messages = std::vector<ChatMessage>;

const Messages kTalk = {{"system", "Be kind."},
                        {"user", "Hello"},
                        {"assistant", "Hi!"},
                        {"user", "Two?"},
                        {"assistant", "Four."}};

std::string shown(const Tokenizer& tokenizer, const std::vector<int32_t>& tokens) {
  return tokenizer.decode(tokens, Tokenizer::Controls::kShow);
}

// The learned parts, each in brackets.
std::string learned(const Tokenizer& tokenizer, const ChatTemplate::Encoded& encoded) {
  std::string out;
  for (size_t i = 0; i < encoded.tokens.size(); ++i) {
    const bool begins = encoded.learned[i] != 0 && (i == 0 || encoded.learned[i - 1] == 0);
    const bool ends =
        encoded.learned[i] != 0 && (i + 1 == encoded.tokens.size() || encoded.learned[i + 1] == 0);
    if (begins) out += "[";
    if (encoded.learned[i] != 0) out += shown(tokenizer, {encoded.tokens[i]});
    if (ends) out += "]";
  }
  return out;
}

struct Case {
  const char* name;
  std::vector<std::string> specials;  // besides end-of-text
  std::string text, learned;
};

// As the models' own cards write them, with <|endoftext|> for the end of a text where the tokenizer decides.
const std::vector<Case> kCases = {
    {"chatml",
     {"<|im_start|>", "<|im_end|>"},
     "<|im_start|>system\nBe "
     "kind.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\nHi!<|im_end|>\n"
     "<|im_start|>user\nTwo?<|im_end|>\n<|im_start|>assistant\nFour.<|im_end|>\n",
     "[Hi!<|im_end|>][Four.<|im_end|>]"},
    {"llama2",
     {"<s>"},
     "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHello [/INST] Hi! <|endoftext|><s>[INST] Two? [/INST] Four. "
     "<|endoftext|>",
     "[ Hi! <|endoftext|>][ Four. <|endoftext|>]"},
    {"llama3",
     {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"},
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe "
     "kind.<|eot_id|><|start_header_id|>user"
     "<|end_header_id|>\n\nHello<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHi!<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nTwo?<|eot_id|><|start_header_id|>assistant<|end_header_id|>"
     "\n\n"
     "Four.<|eot_id|>",
     "[Hi!<|eot_id|>][Four.<|eot_id|>]"},
    {"zephyr",
     {},
     "<|system|>\nBe "
     "kind.<|endoftext|>\n<|user|>\nHello<|endoftext|>\n<|assistant|>\nHi!<|endoftext|>\n<|user|>\n"
     "Two?<|endoftext|>\n<|assistant|>\nFour.<|endoftext|>\n",
     "[Hi!<|endoftext|>][Four.<|endoftext|>]"},
    {"mistral",
     {"<s>"},
     "<s>[INST] Be kind.\n\nHello [/INST] Hi!<|endoftext|>[INST] Two? [/INST] Four.<|endoftext|>",
     "[ Hi!<|endoftext|>][ Four.<|endoftext|>]"},
    {"gemma",
     {"<bos>", "<start_of_turn>", "<end_of_turn>"},
     "<bos><start_of_turn>user\nBe kind.\n\nHello<end_of_turn>\n<start_of_turn>model\nHi!<end_of_turn>\n"
     "<start_of_turn>user\nTwo?<end_of_turn>\n<start_of_turn>model\nFour.<end_of_turn>\n",
     "[Hi!<end_of_turn>][Four.<end_of_turn>]"},
    {"tutorial",
     {},
     "<|system|>\nBe "
     "kind.<|endoftext|><|user|>\nHello<|endoftext|><|assistant|>\nHi!<|endoftext|><|user|>\nTwo?"
     "<|endoftext|><|assistant|>\nFour.<|endoftext|>",
     "[Hi!<|endoftext|>][Four.<|endoftext|>]"},
    {"nanochat",
     {"<|bos|>", "<|user_start|>", "<|user_end|>", "<|assistant_start|>", "<|assistant_end|>"},
     "<|bos|><|user_start|>Be "
     "kind.\n\nHello<|user_end|><|assistant_start|>Hi!<|assistant_end|><|user_start|>Two?"
     "<|user_end|><|assistant_start|>Four.<|assistant_end|>",
     "[Hi!<|assistant_end|>][Four.<|assistant_end|>]"},
    {"plain",
     {},
     "Be kind.\n\nUser: Hello\n\nAssistant: Hi!<|endoftext|>\n\nUser: Two?\n\nAssistant: "
     "Four.<|endoftext|>\n\n",
     "[ Hi!<|endoftext|>][ Four.<|endoftext|>]"},
};

TEST(ChatTemplate, TextTokensAndWhatIsLearned) {
  EXPECT_EQ(kCases.size(), chat_template_tables().size());
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Tokenizer tokenizer = chat_tokenizer(c.specials);
    const ChatTemplate chat(c.name, tokenizer);
    EXPECT_TRUE(chat.missing_tokens().empty());
    EXPECT_EQ(chat.render(kTalk, false), c.text);
    const ChatTemplate::Encoded encoded = chat.encode(kTalk);
    EXPECT_EQ(shown(tokenizer, encoded.tokens), c.text);
    EXPECT_EQ(learned(tokenizer, encoded), c.learned);
    // Cut at special tokens and before answers, each run is tokenized as a whole. In GPT-2's pattern llama3's
    // two line breaks are one token before nothing, as a model sees them, and two before a letter.
    const bool whole = encoded.tokens == tokenizer.encode_with_specials(c.text);
    EXPECT_EQ(whole, c.name != std::string_view("llama3"));
    // What ends an answer ends it in the tokens too.
    ASSERT_EQ(chat.stop_ids().size(), 1u);
    int64_t ends = 0;
    for (size_t i = 0; i < encoded.tokens.size(); ++i)
      ends += encoded.tokens[i] == chat.stop_ids()[0] && encoded.learned[i] != 0;
    EXPECT_EQ(ends, 2);
  }
}

TEST(ChatTemplate, PromptsAndAnswersAreTheWhole) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Tokenizer tokenizer = chat_tokenizer(c.specials);
    const ChatTemplate chat(c.name, tokenizer);
    const ChatTemplate::Prompt first = chat.prompt("Hello", true, "Be kind."),
                               second = chat.prompt("Two?", false);
    std::vector<int32_t> all = first.tokens;
    for (const std::vector<int32_t>& more :
         {chat.answer(first, "Hi!"), second.tokens, chat.answer(second, "Four.")})
      all.insert(all.end(), more.begin(), more.end());
    const std::vector<int32_t> whole = chat.encode(kTalk).tokens;
    ASSERT_LE(all.size(), whole.size());
    EXPECT_TRUE(std::equal(all.begin(), all.end(), whole.begin()));
    const std::string asked = chat.render(std::span(kTalk).first(2), true);
    EXPECT_EQ(shown(tokenizer, first.tokens), asked);
    EXPECT_TRUE(c.text.starts_with(asked));
  }
}

TEST(ChatTemplate, WhatAUserWritesIsText) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const Tokenizer tokenizer = chat_tokenizer(c.specials);
    const ChatTemplate chat(c.name, tokenizer);
    std::string evil = "x";
    for (const SpecialToken& token : tokenizer.specials()) evil += token.content;
    const auto specials_in = [&](const std::vector<int32_t>& tokens) {
      return std::ranges::count_if(tokens, [&](int32_t id) { return tokenizer.token_bytes(id).empty(); });
    };
    const Messages good = {{"system", "x"}, {"user", "x"}, {"assistant", "x"}};
    const Messages bad = {{"system", evil}, {"user", evil}, {"assistant", evil}};
    EXPECT_EQ(specials_in(chat.encode(bad).tokens), specials_in(chat.encode(good).tokens));
    EXPECT_EQ(shown(tokenizer, chat.encode(bad).tokens), chat.render(bad, false));
  }
}

TEST(ChatTemplate, MarkersWithoutTokensArePlainText) {
  const Tokenizer tokenizer = Tokenizer::bytes(/*with_end_of_text=*/false);
  for (const ChatTemplateTable& table : chat_template_tables()) {
    SCOPED_TRACE(table.name);
    const ChatTemplate chat(table.name, tokenizer);
    EXPECT_EQ(chat.missing_tokens(), table.tokens);
    EXPECT_TRUE(chat.stop_ids().empty());
    ASSERT_FALSE(chat.stop_strings().empty());
    const ChatTemplate::Encoded encoded = chat.encode(kTalk);
    EXPECT_EQ(tokenizer.decode(encoded.tokens), chat.render(kTalk, false));
    // The string that ends an answer stands in what is learned of it.
    EXPECT_NE(learned(tokenizer, encoded).find(chat.stop_strings()[0]), std::string::npos);
  }
  EXPECT_EQ(ChatTemplate("plain", tokenizer).stop_strings()[0], "\n\n");
}

TEST(ChatTemplate, SpacesAreTrimmedWhereTheModelsDo) {
  const Tokenizer tokenizer = Tokenizer::bytes(/*with_end_of_text=*/true);
  const Messages padded = {{"user", " \n\xc2\xa0 a b \t"}, {"assistant", "\n c\xe3\x80\x80"}};
  EXPECT_EQ(ChatTemplate("plain", tokenizer).render(padded, false),
            "User: a b\n\nAssistant: c<|endoftext|>\n\n");
  EXPECT_EQ(ChatTemplate("chatml", tokenizer).content_of(" x "), " x ");
  EXPECT_EQ(ChatTemplate("llama3", tokenizer).content_of(" x "), "x");
}

// A token that would lie across the border between question and answer is none: the model never writes it.
TEST(ChatTemplate, AnswersBeginWhereTheModelBegins) {
  const Tokenizer tokenizer = chat_tokenizer({"<|im_start|>", "<|im_end|>"});
  const ChatTemplate chat("chatml", tokenizer);
  // Here it would: a line break is another token where more follow.
  const std::vector<int32_t> one = tokenizer.encode("assistant\n"),
                             more = tokenizer.encode("assistant\n\n\nHello");
  ASSERT_FALSE(std::equal(one.begin(), one.end(), more.begin()));
  for (const char* content : {"\n\nHello", " Hello", "", "ssistant"}) {
    const ChatTemplate::Prompt prompt = chat.prompt("x", true);
    const Messages talk = {{"user", "x"}, {"assistant", content}};
    const std::vector<int32_t> whole = chat.encode(talk).tokens;
    ASSERT_TRUE(std::equal(prompt.tokens.begin(), prompt.tokens.end(), whole.begin())) << content;
    EXPECT_EQ(shown(tokenizer, chat.answer(prompt, content)), std::string(content) + "<|im_end|>");
  }
}

TEST(ChatTemplate, ALastQuestionIsNotLearned) {
  const Tokenizer tokenizer = chat_tokenizer({"<|im_start|>", "<|im_end|>"});
  const ChatTemplate::Encoded encoded = ChatTemplate("chatml", tokenizer).encode(std::span(kTalk).first(4));
  EXPECT_EQ(learned(tokenizer, encoded), "[Hi!<|im_end|>]");
  EXPECT_TRUE(shown(tokenizer, encoded.tokens).ends_with("user\nTwo?<|im_end|>\n"));
}

TEST(ChatTemplate, ProblemsAreNamed) {
  EXPECT_EQ(messages_problem(kTalk), "");
  EXPECT_EQ(messages_problem({}), "");
  const auto problem = [](const Messages& messages) { return messages_problem(messages); };
  EXPECT_NE(problem({{"assistant", "x"}}).find("message 1 is of the assistant"), std::string::npos);
  EXPECT_NE(problem({{"user", "x"}, {"user", "y"}}).find("message 2"), std::string::npos);
  EXPECT_NE(problem({{"user", "x"}, {"system", "y"}}).find("only speak first"), std::string::npos);
  EXPECT_NE(problem({{"tool\n", "x"}}).find("role 'tool\\x0a'"), std::string::npos);
  const Tokenizer tokenizer = Tokenizer::bytes(true);
  expect_error(ErrorKind::kUse, {"--template nobody", "chatml", "plain"},
               [&] { ChatTemplate("nobody", tokenizer); });
}

TEST(RecogniseChatTemplate, ByWhatNoOtherHas) {
  EXPECT_EQ(recognise_chat_template("{{'<|im_start|>' + role}}"), "chatml");
  EXPECT_EQ(recognise_chat_template("{{'<|start_header_id|>' + role}}"), "llama3");
  EXPECT_EQ(recognise_chat_template("{{'[INST] <<SYS>>' + role}}"), "llama2");
  EXPECT_EQ(recognise_chat_template("{{'[INST] ' + content}}"), "mistral");
  EXPECT_EQ(recognise_chat_template("{{'<start_of_turn>' + role}}"), "gemma");
  EXPECT_EQ(recognise_chat_template("{{'<|user|>\\n' + c + eos_token}}{{'<|assistant|>\\n'}}"), "zephyr");
  EXPECT_EQ(recognise_chat_template("{{'<|user|>\\n' + c + '<|endoftext|>'}}{{'<|assistant|>'}}"),
            "tutorial");
  EXPECT_EQ(recognise_chat_template("{{'<|user|>\\n' + c + '<|end|>'}}{{'<|assistant|>' + eos_token}}"), "");
  EXPECT_EQ(recognise_chat_template("{{ something else }}"), "");
  EXPECT_EQ(recognise_chat_template(""), "");
  const Tokenizer tokenizer = Tokenizer::bytes(true);
  for (const ChatTemplateTable& table : chat_template_tables()) {
    const std::string jinja = ChatTemplate(table.name, tokenizer).jinja();
    EXPECT_EQ(recognise_chat_template(jinja), table.name) << jinja;
    EXPECT_EQ(jinja.find('\n'), jinja.npos);
  }
}

}  // namespace
}  // namespace tril
