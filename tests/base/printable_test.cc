#include "tril/base/printable.h"

#include <gtest/gtest.h>

namespace tril {
namespace {

TEST(Printable, HarmlessTextIsUnchanged) {
  for (const char* text : {"", "wte.weight", "Gewöhnlich", "\u65e5\u672c", "\U0001f30d", "a\\b\"c"})
    EXPECT_EQ(printable(text), text);
}

TEST(Printable, ControlsAreEscaped) {
  EXPECT_EQ(printable("a\nb\tc\x1b[31m\x7f"), "a\\x0ab\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string_view("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\u0085"), "\\xc2\\x85");       // next line, a C1 control
  EXPECT_EQ(printable("\u2028"), "\\xe2\\x80\\xa8");  // line separator
  EXPECT_EQ(printable("\u202e"), "\\xe2\\x80\\xae");  // right-to-left override
}

TEST(Printable, InvalidUtf8IsEscaped) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\x80z"), "\\x80z");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                             // cut off
  EXPECT_EQ(printable("\xe6\x97z"), "\\xe6\\x97z");                  // cut off by another letter
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");           // overlong
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
}

TEST(Printable, LongTextIsCutBetweenCharacters) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdef", 5), "abcde...");
  EXPECT_EQ(printable("abcd\u00f6", 5), "abcd...");
}

}  // namespace
}  // namespace tril
