#include "tril/generate/text_streamer.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tril/base/random.h"

namespace tril {
namespace {

// All that comes out, each chunk checked for whole characters.
std::string streamed(const std::vector<std::string>& stops, const std::vector<std::string>& chunks,
                     std::string* stop = nullptr) {
  TextStreamer stream(stops);
  std::string out;
  for (const std::string& chunk : chunks) {
    const std::string now = stream.push(chunk);
    EXPECT_FALSE(first_invalid_utf8(now)) << now;
    out += now;
  }
  out += stream.finish();
  if (stop != nullptr) *stop = stream.stop_string();
  return out;
}

std::vector<std::string> cut_in(std::string_view text, size_t size) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size(); at += size) out.emplace_back(text.substr(at, size));
  return out;
}

TEST(TextStreamer, WithoutStopsAllComesAtOnce) {
  TextStreamer stream;
  EXPECT_EQ(stream.push("ab"), "ab");
  EXPECT_EQ(stream.push("\xf0\x9f"), "");
  EXPECT_EQ(stream.push("\x8c\x8d!"), "\xf0\x9f\x8c\x8d!");
  EXPECT_EQ(stream.finish(), "");
}

TEST(TextStreamer, AStopStringAcrossTokensNeverShows) {
  for (size_t size = 1; size <= 12; ++size) {
    std::string stop;
    EXPECT_EQ(streamed({"\nQ:"}, cut_in("A: yes\n\nQ: no\nQ:", size), &stop), "A: yes\n") << size;
    EXPECT_EQ(stop, "\nQ:");
    EXPECT_EQ(streamed({"\xc3\xa9t\xc3\xa9"}, cut_in("un \xc3\xa9\xc3\xa9t\xc3\xa9 chaud", size)),
              "un \xc3\xa9")
        << size;
    EXPECT_EQ(streamed({"aab"}, cut_in("aaaaab", size)), "aaa") << size;
    EXPECT_EQ(streamed({"xyz"}, cut_in("wxy", size)), "wxy") << size;  // it was none after all
  }
}

TEST(TextStreamer, HoldsBackNoMoreThanItMust) {
  TextStreamer stream({"<end>"});
  EXPECT_EQ(stream.push("a<e"), "a");
  EXPECT_EQ(stream.push("n"), "");
  EXPECT_EQ(stream.push("a"), "<ena");
  EXPECT_EQ(stream.push("<end"), "");
  EXPECT_EQ(stream.finish(), "<end");
}

TEST(TextStreamer, TheStopThatIsCompleteFirst) {
  for (size_t size = 1; size <= 6; ++size) {
    std::string stop;
    EXPECT_EQ(streamed({"abcd", "c"}, cut_in("xabcde", size), &stop), "xab");
    EXPECT_EQ(stop, "c");
    EXPECT_EQ(streamed({"bc", "abc"}, cut_in("xabcde", size), &stop), "x");  // the longest of one end
    EXPECT_EQ(stop, "abc");
  }
}

TEST(TextStreamer, NothingFollowsAStop) {
  TextStreamer stream({"x"});
  EXPECT_EQ(stream.push("axb"), "a");
  EXPECT_TRUE(stream.stopped());
  EXPECT_EQ(stream.push("more"), "");
  EXPECT_EQ(stream.finish(), "");
}

// However a text is cut, what is shown is the same.
TEST(TextStreamer, TheCutsOfTokensDoNotMatter) {
  const std::vector<std::string> stops = {"aba", "bb\xc3\xa9", "\n\n", "\xf0\x9f\x8c\x8d\xc3\xa9"};
  const std::string letters[] = {"a", "b", "\n", "\xc3\xa9", "\xf0\x9f\x8c\x8d", "c", "\xff", "\xc3"};
  for (uint64_t i = 0; i < 2000; ++i) {
    const RandomStream random(5, "text", i);
    std::string text;
    for (uint64_t n = 0; n < 12; ++n) text += letters[random.below(n, 8)];
    std::string stop, other;
    const std::string whole = streamed(stops, {text}, &stop);
    for (const size_t size : {1u, 2u, 5u}) {
      ASSERT_EQ(streamed(stops, cut_in(text, size), &other), whole) << i;
      ASSERT_EQ(other, stop);
    }
    for (const std::string& s : stops) ASSERT_EQ(whole.find(s), whole.npos) << i;
  }
}

TEST(TextStreamer, RefusesStopsThatCannotBe) {
  testing::expect_error(ErrorKind::kUse, {"--stop", "empty"}, [] { TextStreamer({"a", ""}); });
  testing::expect_error(ErrorKind::kUse, {"--stop", "\\xff", "UTF-8"}, [] { TextStreamer({"a\xff"}); });
}

}  // namespace
}  // namespace tril
