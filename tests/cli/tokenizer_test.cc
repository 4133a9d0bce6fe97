// tril tokenizer: from text to a tokenizer, to ids, to other formats and back.
#include "tests/cli/run_tril.h"

namespace tril {
namespace {

using cli_testing::read_file;
using cli_testing::Result;
using cli_testing::run_tril;
using cli_testing::write_file;

class TokenizerCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(dir_ / "text.txt", cli_testing::sample_text());
    ASSERT_EQ(run({"train", "text.txt", "--vocab", "300", "--out", "t.json"}).code, 0);
  }
  Result run(std::vector<std::string> words, const std::string& input = "") {
    words.insert(words.begin(), "tokenizer");
    return run_tril(words, {.directory = dir_.path(), .input = input});
  }
  void fails(const std::vector<std::string>& words, int code, const std::string& part) {
    cli_testing::expect_error(run(words), code, {part});
  }
  testing::TemporaryDirectory dir_;
};

TEST_F(TokenizerCommand, TextToIdsAndBack) {
  const std::string text = "The cat sees\n the <|endoftext|> moon.  ";
  const Result ids = run({"encode", "--tokenizer", "t.json", "-"}, text);
  EXPECT_EQ(ids.code, 0) << ids.err;
  EXPECT_NE(ids.err.find("1 special token in the text taken for ordinary text"), std::string::npos)
      << ids.err;
  EXPECT_EQ(run({"decode", "--tokenizer", "t.json"}, ids.out).out, text);
  const Result special = run({"encode", "--special", "--tokenizer", "t.json", "-"}, text);
  EXPECT_EQ(special.err, "");
  EXPECT_NE((" " + special.out).find(" 299 "), std::string::npos) << special.out;
  EXPECT_EQ(run({"decode", "--tokenizer", "t.json"}, special.out).out, "The cat sees\n the  moon.  ");
  EXPECT_EQ(run({"decode", "--special", "--tokenizer", "t.json"}, special.out).out, text);
}

// The text and its ids together would need more.
TEST_F(TokenizerCommand, EncodesWhatItDoesNotHold) {
  // A program's peak is at least the memory of the process that started it: what a small text takes.
  const auto large = [&] {
    std::string text;
    while (text.size() < 24'000'000) text += cli_testing::sample_text();
    return text;
  };
  write_file(dir_ / "large.txt", large());
  const Result small = run({"encode", "--tokenizer", "t.json", "text.txt", "--out", "ids"});
  const Result result = run({"encode", "--tokenizer", "t.json", "large.txt", "--out", "ids"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_LT(result.peak_bytes, small.peak_bytes + 5'000'000);
  const std::string ids = read_file(dir_ / "ids");
  EXPECT_TRUE(run({"encode", "--tokenizer", "t.json", "-"}, large()).out == ids);
  EXPECT_TRUE(run({"decode", "--tokenizer", "t.json", "ids"}).out == large());
}

TEST_F(TokenizerCommand, TheSameTokenizerForAnyThreads) {
  ASSERT_EQ(run({"train", "text.txt", "--vocab", "300", "--threads", "3", "--out", "t3.json"}).code, 0);
  EXPECT_EQ(read_file(dir_ / "t.json"), read_file(dir_ / "t3.json"));
}

TEST_F(TokenizerCommand, LearnsFromWhateverTextIsStoredIn) {
  const std::string text = cli_testing::sample_text();
  ASSERT_EQ(std::system(("gzip -c '" + (dir_ / "text.txt").string() + "' > '" +
                         (dir_ / "packed.txt.gz").string() + "'")
                            .c_str()),
            0);
  write_file(dir_ / "a.jsonl", to_text({{"text", text}}) + "\n");
  std::filesystem::create_directories(dir_ / "folder" / "inner");
  write_file(dir_ / "folder" / "inner" / "a.md", text);
  for (const std::string from : {"packed.txt.gz", "a.jsonl", "folder", "-"}) {
    const Result result = run({"train", from, "--vocab", "300", "--out", "other.json"}, text);
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(read_file(dir_ / "t.json"), read_file(dir_ / "other.json")) << from;
    std::filesystem::remove(dir_ / "other.json");
  }
}

TEST_F(TokenizerCommand, TrainingHasItsOptions) {
  ASSERT_EQ(run({"train", "text.txt", "--vocab", "500", "--min-count", "20", "--special", "<|a|>,<|b|>",
                 "--pattern", "llama3", "--out", "u.json"})
                .code,
            0);
  const Json info = parse_json(run({"info", "u.json", "--json"}).out);
  EXPECT_EQ(info["pattern"], "llama3");
  EXPECT_LT(info["vocabulary"], 500);
  EXPECT_EQ(info["specials"][1]["content"], "<|b|>");
  EXPECT_EQ(info["end_of_text"], -1);
  ASSERT_EQ(
      run({"train", "text.txt", "--vocab", "280", "--pattern", "[a-z]+|[^a-z]+", "--out", "own.json"}).code,
      0);
  EXPECT_EQ(parse_json(run({"info", "own.json", "--json"}).out)["pattern"], "own");
}

TEST_F(TokenizerCommand, GoesThroughFormats) {
  const std::string ids = run({"encode", "--tokenizer", "t.json", "text.txt"}).out;
  for (const auto& [format, out] : {std::pair("vocab+merges", "files"),
                                    {"gguf", "t.gguf"},
                                    {"tiktoken", "gpt2.tiktoken"},
                                    {"tokenizer.json", "u.json"}}) {
    EXPECT_EQ(run({"export", "t.json", "--to", format, "--out", out}).code, 0) << format;
    EXPECT_EQ(run({"encode", "--tokenizer", out, "text.txt"}).out, ids) << format;
  }
  const Result compared = run({"compare", "t.json", "t.gguf", "text.txt", "--json"});
  EXPECT_EQ(parse_json(compared.out)["files"][0]["same_ids"], true);
  ASSERT_EQ(run({"train", "text.txt", "--vocab", "270", "--out", "small.json"}).code, 0);
  const Json row = parse_json(run({"compare", "t.json", "small.json", "text.txt", "--json"}).out)["files"][0];
  EXPECT_LT(row["tokens_a"], row["tokens_b"]);
  EXPECT_GE(row["first_difference"]["token"], 0);
  EXPECT_NE(run({"compare", "t.json", "small.json", "text.txt"}).out.find("differ first at token"),
            std::string::npos);
  EXPECT_NE(run({"info", "t.json"}).out.find("fingerprint"), std::string::npos);
}

TEST_F(TokenizerCommand, FaultsAreOneLine) {
  fails({"encod"}, 1, "did you mean encode");
  fails({"enc\n\x1b[31m"}, 1, "unknown part");
  fails({"train", "text.txt", "--vocab", "2097152", "--out", "x.json"}, 1, "2097151");
  fails({"train", "ids.npy", "--out", "x.json"}, 1, "token ids");
  fails({"encode", "text.txt"}, 1, "--tokenizer FILE");
  fails({"encode", "--tokenizer", "absent.json", "text.txt"}, 2, "absent.json");
  fails({"export", "t.json", "--to", "llama2.c", "--out", "x.bin"}, 1, "SentencePiece");
  fails({"export", "t.json", "--to", "zip", "--out", "x"}, 1, "vocab+merges");
  fails({"train", "text.txt", "--out", "x.json", "--pattern", "gpt7"}, 1, "llama3");
  fails({"train", "text.txt", "--out", "x.json", "--pattern", "a[b"}, 1, "a[b");
  fails({"compare", "t.json", "t.json"}, 1, "at least one text");
  write_file(dir_ / "ids", "1 2 x3");
  fails({"decode", "--tokenizer", "t.json", "ids"}, 2, "x3");
  write_file(dir_ / "ids", "1 99999");
  fails({"decode", "--tokenizer", "t.json", "ids"}, 2, "ids: the id 99999 at byte 2");
}

// A model is trained with a tokenizer of another program.
TEST_F(TokenizerCommand, TrainsAModelWithAnyFormat) {
  ASSERT_EQ(run({"export", "t.json", "--to", "gguf", "--out", "t.gguf"}).code, 0);
  const Result trained =
      run_tril({"train", "text.txt", "--tokenizer", "t.gguf", "--steps", "2", "--layers", "1", "--heads", "1",
                "--channels", "16", "--context", "16", "--batch", "2", "--out", "run"},
               {.directory = dir_.path()});
  EXPECT_EQ(trained.code, 0) << trained.err;
  EXPECT_EQ(parse_json(run({"info", "run", "--json"}).out)["fingerprint"],
            parse_json(run({"info", "t.json", "--json"}).out)["fingerprint"]);
  EXPECT_EQ(
      run_tril({"generate", "run", "--prompt", "The", "--max-tokens", "3"}, {.directory = dir_.path()}).code,
      0);
}

}  // namespace
}  // namespace tril
