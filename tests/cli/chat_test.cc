// Instruction tuning and `tril chat`, from JSON lines to answers through pipes.
#include "tests/cli/train_run.h"

namespace tril::cli_testing {
namespace {

const std::string kTalk =
    R"({"messages":[{"role":"system","content":"Be kind."},{"role":"user","content":"Hello"},)"
    R"({"role":"assistant","content":"Hi there!"},{"role":"user","content":"And you?"},)"
    R"({"role":"assistant","content":"Fine, é."}]})"
    "\n";

std::vector<std::string> tune(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = {
      "train",       "chat.jsonl", "--layers",  "2", "--heads",    "2",       "--channels",      "32",
      "--context",   "128",        "--batch",   "2", "--steps",    "150",     "--learning-rate", "5e-3",
      "--tokenizer", "byte",       "--threads", "1", "--schedule", "constant"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

// One model for all tests: it knows the one conversation.
class ChatTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = new testing::TemporaryDirectory;
    write_file(*directory_ / "chat.jsonl", kTalk);
    write_file(*directory_ / "text.txt", sample_text());
    trained_ = run(tune({"--out", "model"}));
  }
  static void TearDownTestSuite() { delete directory_; }
  static Result run(const std::vector<std::string>& arguments, RunOptions options = {}) {
    options.directory = directory_->path();
    return run_tril(arguments, options);
  }
  // The JSON objects of the answers to these lines; the exit code is that of the first fault.
  static std::vector<Json> chat(const std::string& input, const std::vector<std::string>& more = {},
                                std::string* err = nullptr, int code = 0) {
    std::vector<std::string> arguments = {"chat", "model", "--json", "--temperature", "0"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Result result = run(arguments, {.input = input});
    EXPECT_EQ(result.code, code) << result.err;
    if (err != nullptr) *err = result.err;
    std::vector<Json> out = json_lines(result.out);
    std::erase_if(out, [](const Json& line) { return line.contains("error"); });
    return out;
  }
  static void expect_error(const std::vector<std::string>& arguments, int code, const std::string& part) {
    cli_testing::expect_error(run(arguments), code, {part});
  }

  static testing::TemporaryDirectory* directory_;
  static Result trained_;
};
testing::TemporaryDirectory* ChatTest::directory_ = nullptr;
Result ChatTest::trained_;

TEST_F(ChatTest, TheModelAnswersTheExampleAndStopsByItself) {
  ASSERT_EQ(trained_.code, 0) << trained_.err;
  for (const char* part :
       {"template  plain (the model has none)", "are learned", "none is for validation", "tril chat model"})
    EXPECT_NE(trained_.out.find(part), std::string::npos) << trained_.out;
  std::string err;
  const std::vector<Json> answers = chat("Hello\nAnd you?\n", {"--system", "Be kind."}, &err);
  ASSERT_EQ(answers.size(), 2u) << err;
  EXPECT_EQ(answers[0]["content"], "Hi there!");
  EXPECT_EQ(answers[0]["finish"], "stop_id");
  EXPECT_EQ(answers[1]["content"], "Fine, é.");
  EXPECT_EQ(answers[1]["finish"], "stop_id");
  EXPECT_NE(err.find("template plain (recognised in the model's own)"), std::string::npos) << err;
  // Read for the second: the end of the first answer, which was drawn and not read, and the new turn.
  EXPECT_EQ(answers[0]["prompt_tokens_read"], std::string("Be kind.\n\nUser: Hello\n\nAssistant:").size());
  EXPECT_EQ(answers[1]["prompt_tokens_read"], 1 + std::string("\n\nUser: And you?\n\nAssistant:").size());
}

TEST_F(ChatTest, AsText) {
  const Result result =
      run({"chat", "model", "--temperature", "0", "--system", "Be kind."}, {.input = "\nHello\r\nAnd you?"});
  EXPECT_EQ(result.out, "Hi there!\nFine, é.\n");
}

TEST_F(ChatTest, Commands) {
  std::string err;
  std::vector<Json> answers = chat(
      "/system Be kind.\nHello\n/undo\nHello\n/retry\nAnd you?\n/save "
      "talk.json\n/nothing\n//Hello\n/quit\nHello\n",
      {}, &err);
  ASSERT_EQ(answers.size(), 5u) << err;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(answers[static_cast<size_t>(i)]["content"], "Hi there!");
  EXPECT_EQ(answers[2]["prompt_tokens_read"], 1);  // the same again: its last token alone
  EXPECT_EQ(answers[3]["content"], "Fine, é.");
  for (const char* part :
       {"[system: Be kind.]", "[taken back; 0 left]", "[5 messages in talk.json]", "/nothing"})
    EXPECT_NE(err.find(part), std::string::npos) << err;
  const Json saved = parse_json(read_file(*directory_ / "talk.json"));
  ASSERT_EQ(saved["messages"].size(), 5u);
  EXPECT_EQ(saved["messages"][0], (Json{{"role", "system"}, {"content", "Be kind."}}));
  EXPECT_EQ(saved["messages"][4], (Json{{"role", "assistant"}, {"content", "Fine, é."}}));

  answers = chat("/undo\nAnd you?\n/reset\nHello\n", {"--load", "talk.json"}, &err);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["content"], "Fine, é.");
  EXPECT_EQ(answers[1]["content"], "Hi there!");
  EXPECT_EQ(answers[1]["prompt_tokens_read"], 1);  // a conversation that begins as the last one did
  answers =
      chat("/load talk.json\n/undo\nAnd you?\n/load missing\n/load model/config.json\n/save\n", {}, &err, 2);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0]["content"], "Fine, é.");
  for (const char* part : {"missing", "no conversation", "/save: give a FILE"})
    EXPECT_NE(err.find(part), std::string::npos) << err;

  // A conversation may be replaced, other files are not; a system text can be taken away.
  const std::string config = read_file(*directory_ / "model/config.json");
  answers =
      chat("/load talk.json\n/system -\nHello\n/save talk.json\n/save model/config.json\n", {}, &err, 1);
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_NE(err.find("[there is no system text]"), std::string::npos) << err;
  EXPECT_NE(err.find("/save: model/config.json is there"), std::string::npos) << err;
  EXPECT_EQ(read_file(*directory_ / "model/config.json"), config);
  const Json replaced = parse_json(read_file(*directory_ / "talk.json"));
  ASSERT_EQ(replaced["messages"].size(), 6u);
  EXPECT_EQ(replaced["messages"][0]["role"], "user");
}

TEST_F(ChatTest, OldTurnsAreLeftOut) {
  std::string input, err;
  for (int i = 0; i < 6; ++i) input += "Hello\n";
  const std::vector<Json> answers = chat(input, {"--max-tokens", "12"}, &err);
  ASSERT_EQ(answers.size(), 6u);
  EXPECT_GT(answers[5]["questions_left_out"].get<int>(), 0);
  EXPECT_NE(err.find("beyond the context"), std::string::npos) << err;
  EXPECT_TRUE(chat(std::string(300, 'x') + "\n", {}, &err, 1).empty());
  EXPECT_NE(err.find("the model sees 128"), std::string::npos) << err;
}

TEST_F(ChatTest, StopsAndCuts) {
  std::vector<Json> answers = chat("Hello\n", {"--system", "Be kind.", "--stop", "ther"});
  EXPECT_EQ(answers.at(0)["content"], "Hi");
  EXPECT_EQ(answers.at(0)["finish"], "stop");
  answers = chat("Hello\nAnd you?\n", {"--system", "Be kind.", "--max-tokens", "4"});
  EXPECT_EQ(answers.at(0)["content"], "Hi");
  EXPECT_EQ(answers.at(0)["finish"], "length");
  expect_error({"chat", "model", "--stop", ""}, 1, "--stop");
  expect_error({"chat"}, 1, "no model given");
}

TEST_F(ChatTest, TheTemplateIsInTheFolder) {
  const Json config = parse_json(read_file(*directory_ / "model/tokenizer_config.json"));
  const std::string jinja = config["chat_template"].get<std::string>();
  EXPECT_TRUE(jinja.starts_with("{# tril: plain #}")) << jinja;
  expect_error({"chat", "model", "--template", "chatty"}, 1, "--template chatty: unknown");
  std::filesystem::copy(*directory_ / "model", *directory_ / "other",
                        std::filesystem::copy_options::recursive);
  write_file(*directory_ / "other/chat_template.jinja", "{{ messages }}");
  expect_error({"chat", "other"}, 1, "not known here; add --template NAME");
  write_file(*directory_ / "other/chat_template.jinja", "{{ '<|im_start|>' }}");
  const Result result = run({"chat", "other"}, {.input = ""});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find(
                "template chatml (recognised in the model's own); plain text, not tokens, in this tokenizer: "
                "<|im_start|> <|im_end|>"),
            std::string::npos)
      << result.err;
}

// Ctrl-C ends the answer; the next line is read all the same.
TEST_F(ChatTest, InterruptStopsTheAnswerAlone) {
  ASSERT_EQ(run({"train",     "text.txt", "--layers", "4",    "--heads",        "2", "--channels",  "64",
                 "--context", "4096",     "--batch",  "1",    "--steps",        "1", "--tokenizer", "byte",
                 "--arch",    "llama",    "--out",    "long", "--val-fraction", "0"})
                .code,
            0);
  const Result result =
      run({"chat", "long", "--max-tokens", "100000", "--logit-bias", "65:1000", "--threads", "1"},
          {.input = "Hello\n/save cut.json\n", .signal_at = "AAAA", .signal = SIGINT});
  EXPECT_EQ(result.code, 0) << result.err;
  const std::string answer = parse_json(read_file(*directory_ / "cut.json"))["messages"][1]["content"];
  EXPECT_EQ(answer.find_first_not_of('A'), answer.npos);
  EXPECT_GE(answer.size(), 4u);
  EXPECT_LT(answer.size(), 3900u);
}

TEST_F(ChatTest, TuningGoesOnExactly) {
  const auto from = [&](const std::string& steps, const std::string& out,
                        std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {"train",     "chat.jsonl", "--from",   "model",   "--steps",
                                          steps,       "--schedule", "constant", "--batch", "2",
                                          "--threads", "1",          "--warmup", "0",       "--learning-rate",
                                          "1e-3",      "--out",      out};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  };
  const Result whole = from("8", "whole");
  ASSERT_EQ(whole.code, 0) << whole.err;
  EXPECT_NE(whole.out.find("template  plain (recognised in the model's own)"), std::string::npos)
      << whole.out;
  ASSERT_EQ(from("3", "parts").code, 0);
  const Result rest = from("8", "parts", {"--resume"});
  ASSERT_EQ(rest.code, 0) << rest.err;
  EXPECT_EQ(read_file(*directory_ / "whole/model.safetensors"),
            read_file(*directory_ / "parts/model.safetensors"));
  EXPECT_EQ(read_file(*directory_ / "whole/tokenizer_config.json"),
            read_file(*directory_ / "parts/tokenizer_config.json"));
  const Result other = from("8", "parts", {"--template", "chatml"});
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.err.find("--template"), std::string::npos) << other.err;
}

TEST_F(ChatTest, TheMaskedView) {
  const Result text = run({"data", "show", "chat.jsonl", "--from", "model"});
  ASSERT_EQ(text.code, 0) << text.err;
  EXPECT_NE(text.out.find("conversation 0 of 1, chat.jsonl, line 1"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("\n  learned   |H|i| |t|h|e|r|e|!|<|endoftext|>\n  read     \\n|\\n|U|s"),
            std::string::npos)
      << text.out;
  const Json json = parse_json(
      run({"data", "show", "chat.jsonl", "--tokenizer", "byte", "--template", "zephyr", "--json"}).out);
  EXPECT_EQ(json["template"], "zephyr");
  EXPECT_EQ(json["tokens"].size(), json["learned"].size());
  const Result batch = run(
      {"data", "show", "chat.jsonl", "--from", "model", "--batch", "0", "--context", "128", "--rows", "1"});
  EXPECT_NE(batch.out.find("learned:  |H|i| |t|h|e|r|e|!|<|endoftext|>"), std::string::npos) << batch.out;
  EXPECT_NE(batch.out.find("padding: "), std::string::npos) << batch.out;
  expect_error({"data", "show", "chat.jsonl"}, 1, "--from MODEL");
  expect_error({"data", "show", "chat.jsonl", "--from", "model", "--document", "1"}, 1, "--document 1");
  expect_error({"data", "show", "chat.jsonl", "--from", "model", "--batch", "0", "--validation"}, 1,
               "--validation");
}

TEST_F(ChatTest, WhatConversationsAreNotFor) {
  write_file(*directory_ / "broken.jsonl", kTalk + "{\"messages\":[]}\n");
  expect_error({"data", "build", "chat.jsonl", "--out", "store"}, 1, "tril train reads such a file");
  expect_error({"train", "chat.jsonl", "text.txt"}, 1, "does not");
  expect_error({"train", "chat.jsonl", "text.txt", "--mix", "1,1"}, 1, "--mix");
  expect_error({"train", "text.txt", "--template", "chatml"}, 1, "--template chatml");
  expect_error({"train", "broken.jsonl", "--from", "model"}, 2, "broken.jsonl, line 2: nobody answers");
  expect_error({"train", "chat.jsonl", "--from", "model", "--template", "x"}, 1, "--template x: unknown");
  const Result skipped = run(
      {"train", "broken.jsonl", "--from", "model", "--steps", "1", "--on-error", "skip", "--out", "skipped"});
  EXPECT_EQ(skipped.code, 0) << skipped.err;
  EXPECT_NE(skipped.out.find("1 broken document left out"), std::string::npos) << skipped.out;
}

}  // namespace
}  // namespace tril::cli_testing
