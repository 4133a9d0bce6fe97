#include "tril/generate/conversation.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/expect_error.h"
#include "tests/text/chat_tokenizer.h"

namespace tril {
namespace {

using testing::expect_error;

class ConversationTest : public ::testing::Test {
 protected:
  std::string text(const std::vector<int32_t>& tokens) const {
    return tokenizer_.decode(tokens, Tokenizer::Controls::kShow);
  }
  // An answer that ends by itself.
  void answer(Conversation& c, const std::string& content, const std::vector<int32_t>& asked) {
    std::vector<int32_t> tokens = tokenizer_.encode(content);
    tokens.push_back(chat_.stop_ids()[0]);
    c.answered(content, tokens);
    last_ = asked;
    last_.insert(last_.end(), tokens.begin(), tokens.end());
  }

  Tokenizer tokenizer_ = testing::chat_tokenizer({"<|im_start|>", "<|im_end|>"});
  ChatTemplate chat_{"chatml", tokenizer_};
  std::vector<int32_t> last_;  // all tokens after the last answer
};

TEST_F(ConversationTest, EachTurnGoesOnFromTheTokensBefore) {
  Conversation c(chat_, 1000, "Be kind.");
  answer(c, "Hi!", c.ask("Hello", 10));
  for (const char* question : {"Two?", "Four?", "Well?"}) {
    const std::vector<int32_t> asked = c.ask(question, 10);
    ASSERT_GT(asked.size(), last_.size());
    EXPECT_TRUE(std::equal(last_.begin(), last_.end(), asked.begin()));
    answer(c, "Four.", asked);
  }
  const std::string all = text(last_);
  EXPECT_EQ(all.find("Be kind."), all.rfind("Be kind."));  // said once
  EXPECT_EQ(c.messages().size(), 9u);
  EXPECT_EQ(c.messages()[0].role, "system");
  EXPECT_EQ(c.messages()[8].content, "Four.");
}

TEST_F(ConversationTest, OldTurnsAreLeftOutWholeAndTheSystemTextStays) {
  Conversation c(chat_, 90, "Be kind.");
  for (int i = 0; i < 8; ++i) {
    const std::vector<int32_t> asked = c.ask("Number " + std::to_string(i), 20);
    EXPECT_LE(asked.size() + 20, 90u);
    EXPECT_TRUE(text(asked).starts_with("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nNumber "));
    EXPECT_TRUE(text(asked).ends_with("Number " + std::to_string(i) + "<|im_end|>\n<|im_start|>assistant\n"));
    EXPECT_EQ(text(asked).find("Number " + std::to_string(c.left_out())), text(asked).find("Number "));
    answer(c, "Four.", asked);
  }
  EXPECT_GT(c.left_out(), 2);
  EXPECT_EQ(c.messages().size(), 17u);  // saved are all
}

TEST_F(ConversationTest, AMessageThatIsTooLongChangesNothing) {
  Conversation c(chat_, 60);
  answer(c, "Hi!", c.ask("Hello", 10));
  expect_error(ErrorKind::kUse, {"the model sees 60", "10 more"}, [&] { c.ask(std::string(300, 'x'), 10); });
  EXPECT_EQ(c.turns(), 1);
  answer(c, "Four.", c.ask("Two?", 10));
  EXPECT_EQ(c.turns(), 2);
}

// Cut by a limit, or ended by a string: the next turn sees it ended all the same.
TEST_F(ConversationTest, AnAnswerThatWasCutIsEnded) {
  Conversation c(chat_, 1000);
  c.ask("Hello", 10);
  c.answered("How are", tokenizer_.encode("How are yo"));
  EXPECT_NE(text(c.ask("Well?", 10)).find("assistant\nHow are<|im_end|>\n<|im_start|>user\nWell?"),
            std::string::npos);
}

TEST_F(ConversationTest, UndoResetAndGivingUp) {
  Conversation c(chat_, 1000, "Be kind.");
  std::string user;
  EXPECT_FALSE(c.undo());
  answer(c, "Hi!", c.ask("Hello", 10));
  answer(c, "Four.", c.ask("Two?", 10));
  EXPECT_TRUE(c.undo(&user));
  EXPECT_EQ(user, "Two?");
  c.ask("Never", 10);
  expect_error(ErrorKind::kUse, {"no answer yet"}, [&] { c.ask("again", 10); });
  c.give_up();
  EXPECT_EQ(c.turns(), 1);
  c.reset();
  EXPECT_EQ(c.turns(), 0);
  EXPECT_EQ(c.system(), "Be kind.");
  expect_error(ErrorKind::kUse, {"answer to nothing"}, [&] { c.answered("x", {}); });
}

TEST_F(ConversationTest, LoadIsTheConversationThatWasSaved) {
  Conversation c(chat_, 1000, "Be kind."), other(chat_, 1000, "Be rude.");
  answer(c, "Hi!", c.ask("Hello", 10));
  answer(c, "Four.", c.ask("Two?", 10));
  other.load(c.messages());
  EXPECT_EQ(other.system(), "Be kind.");
  EXPECT_EQ(other.ask("Well?", 10), c.ask("Well?", 10));
  const ChatMessage bad[] = {{"user", "a"}, {"assistant", "b"}, {"user", "c"}};
  c.give_up();
  expect_error(ErrorKind::kUse, {"no answer"}, [&] { c.load(bad); });
  expect_error(ErrorKind::kUse, {"message 1"}, [&] { c.load(std::span(bad).subspan(1)); });
  EXPECT_EQ(c.turns(), 2);
}

}  // namespace
}  // namespace tril
