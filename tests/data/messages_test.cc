#include "tril/data/messages.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/text/text_testing.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::TemporaryFolder;

std::string read(std::string_view json) {
  std::vector<ChatMessage> messages;
  const std::string problem = read_messages(json, messages);
  if (!problem.empty()) return "! " + problem;
  std::string out;
  for (const ChatMessage& message : messages) out += message.role[0] + (":" + message.content) + ";";
  return out;
}

TEST(ReadMessages, EveryFormat) {
  EXPECT_EQ(read(R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":"Q"},
                                 {"role":"assistant","content":"A"}],"id":7})"),
            "s:S;u:Q;a:A;");
  EXPECT_EQ(read(R"([{"role":"user","content":"Q"},{"role":"assistant","content":"A"}])"), "u:Q;a:A;");
  EXPECT_EQ(read(R"({"prompt":"Q","completion":"A"})"), "u:Q;a:A;");
  EXPECT_EQ(read(R"({"prompt":[{"role":"system","content":"S"},{"role":"user","content":"Q"}],
                     "completion":[{"role":"assistant","content":"A"}]})"),
            "s:S;u:Q;a:A;");
  EXPECT_EQ(read(R"({"instruction":"Q","input":"","output":"A"})"), "u:Q;a:A;");
  EXPECT_EQ(read(R"({"instruction":"Q","output":"A","input":null})"), "u:Q;a:A;");
  EXPECT_EQ(read(R"({"instruction":"Q","input":"I","output":"A"})"), "u:Q\n\nI;a:A;");
  EXPECT_EQ(read(R"({"conversations":[{"from":"human","value":"Q"},{"from":"gpt","value":"A"}]})"),
            "u:Q;a:A;");
  EXPECT_EQ(read(R"({"instruction":[],"input":"x","output":"y"})"), "! \"instruction\" is empty");
  // Columns of other formats beside them, empty or not.
  EXPECT_EQ(read(R"({"prompt":"Q","completion":"A","instruction":"I"})"), "u:Q;a:A;");
  EXPECT_EQ(read(R"({"messages":null,"conversations":"","prompt":"Q","completion":"A"})"), "u:Q;a:A;");
  EXPECT_EQ(
      read(R"({"messages":[{"role":"user","content":[{"type":"text","text":"Q"},{"type":"text","text":"R"}]},
                                 {"role":"assistant","content":"é🌍"}]})"),
      "u:QR;a:é🌍;");
}

TEST(ReadMessages, EveryProblemIsNamed) {
  const auto has = [](std::string_view json, std::string_view part) {
    EXPECT_NE(read(json).find(part), std::string::npos) << read(json);
    EXPECT_EQ(read(json)[0], '!') << json;
  };
  has("{", "no valid JSON");
  has("7", "no conversation");
  has("{\"text\":\"x\"}", "no \"messages\"");
  has("[]", "no conversation");
  has(R"({"messages":[]})", "nobody answers");
  has(R"({"messages":[{"role":"user","content":"Q"}]})", "nobody answers");
  has(R"({"messages":[{"role":"assistant","content":"A"}]})", "message 1 is of the assistant");
  has(R"({"messages":[{"content":"A"}]})", "message 1 has no \"role\"");
  has(R"({"messages":["x"]})", "message 1 has no \"role\"");
  has(R"({"messages":[{"role":"user"}]})", "message 1 has no content");
  has(R"({"messages":[{"role":"user","content":7}]})", "no text");
  has(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "only text is read");
  has(R"({"messages":[{"role":"tool","content":"x"}]})", "role 'tool'");
  has(R"({"messages":[{"role":"user","content":"a\u0000b"}]})", "NUL");
  has("{\"prompt\":\"Q\",\"completion\":\"\xff\"}", "no valid JSON");
}

TEST(HoldsConversations, ByTheFirstLine) {
  TemporaryFolder folder;
  const auto holds = [&](const std::string& content, const SourceOptions& options = {}) {
    return holds_conversations({.path = folder.write("a.jsonl", content), .format = SourceFormat::kJsonLines},
                               options);
  };
  const std::string good = R"({"prompt":"Q","completion":"A"})";
  EXPECT_TRUE(holds(good));
  EXPECT_TRUE(holds("\xef\xbb\xbf\n \r\n" + good + "\r\nnothing"));
  EXPECT_TRUE(holds(R"({"prompt":"Q","completion":")" + std::string(100000, 'x') + "\"}\n"));
  EXPECT_FALSE(holds(R"({"text":"x","prompt":"Q","completion":"A"})"));
  EXPECT_FALSE(holds(good, {.field = "prompt"}));
  EXPECT_FALSE(holds(""));
  EXPECT_FALSE(holds("{\n" + good));
  EXPECT_FALSE(holds_conversations({.path = folder.write("a.txt", good), .format = SourceFormat::kText},
                                   SourceOptions{}));
}

TEST(ReadConversations, PlacesAndBrokenOnes) {
  TemporaryFolder folder;
  const std::string good = R"({"prompt":"Q","completion":"A"})";
  const std::string path =
      folder.write("chat.jsonl", good + "\n\n{\"prompt\":\"Q\"}\n" + good + "\r\nno JSON").string();
  const std::vector<SourceFile> files = {{.path = path, .format = SourceFormat::kJsonLines}};
  expect_error(ErrorKind::kData, {path + ", line 3", "no \"messages\"", "--on-error skip"},
               [&] { read_conversations(files, {}); });
  std::vector<std::string> told;
  SourceOptions options;
  options.on_broken = [&](const std::string& problem) { told.push_back(problem); };
  int64_t broken = 0;
  const std::vector<SourceConversation> read = read_conversations(files, options, &broken);
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[1].name, path + ", line 4");
  EXPECT_EQ(broken, 2);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_NE(told[1].find("line 5: no valid JSON"), std::string::npos) << told[1];
  folder.write("chat.jsonl", "{}\n");
  expect_error(ErrorKind::kData, {"no conversation is left of 1"},
               [&] { read_conversations(files, options); });
}

// Damaged lines, the same in every run: a conversation in good order, or one line that says why not.
TEST(ReadMessages, Fuzz) {
  const std::string whole[] = {
      R"({"messages":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"Q"}]},)"
      R"({"role":"assistant","content":"A\u00e9\ud83c\udf0d"}]})",
      R"({"conversations":[{"from":"human","value":"Q"},{"from":"gpt","value":"A"}]})",
      R"({"instruction":"Q","input":"I","output":"A"})", R"({"prompt":"Q","completion":"A"})"};
  int64_t read = 0, refused = 0;
  const uint64_t count = testing::fuzz_rounds(6000);
  for (uint64_t i = 0; i < count; ++i) {
    const std::string json =
        testing::mutate(whole[i % 4], RandomStream(3, "messages", i), "{}[]\",:\\u0ntrue 7.-e\xff");
    std::vector<ChatMessage> messages;
    const std::string problem = read_messages(json, messages);
    if (!problem.empty()) {
      EXPECT_EQ(problem.find_first_of("\n\r\x1b"), problem.npos) << problem;
      ++refused;
      continue;
    }
    ++read;
    EXPECT_EQ(messages_problem(messages), "") << json;
    for (const ChatMessage& message : messages) EXPECT_FALSE(first_invalid_utf8(message.content)) << json;
  }
  EXPECT_GT(read, std::min<int64_t>(100, static_cast<int64_t>(count) / 60));
  EXPECT_GT(refused, static_cast<int64_t>(count) / 3);
}

}  // namespace
}  // namespace tril
