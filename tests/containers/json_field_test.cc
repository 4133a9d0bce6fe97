#include "tril/containers/json_field.h"

#include <gtest/gtest.h>

#include "tests/support/mutate.h"
#include "tril/containers/json.h"

namespace tril {
namespace {

std::string text_of(const std::string& json, const std::string& field = "text") {
  std::string out;
  const std::string problem = read_json_field(json, field, out);
  return problem.empty() ? out : "PROBLEM " + problem;
}

TEST(JsonField, StringsOfEveryKind) {
  EXPECT_EQ(text_of(R"({"text":"a"})"), "a");
  EXPECT_EQ(
      text_of(" \t{ \"id\" : -1.5e+3 , \"text\" : \"\" , \"x\" : [ { } , [ ] , true , false , null ] } \r"),
      "");
  EXPECT_EQ(text_of(R"({"text":"\"\\\/\b\f\n\r\t\u0041\u00e9\u4e2d\ud83c\udf0d"})"),
            "\"\\/\b\f\n\r\tA\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x8C\x8D");
  EXPECT_EQ(text_of("{\"text\":\"\xE4\xB8\xAD\"}"), "\xE4\xB8\xAD");
  EXPECT_EQ(text_of(R"({"text":"a","text":"b"})"), "b");
  EXPECT_EQ(text_of(R"({"t\u0065xt":"a"})"), "a");
  EXPECT_EQ(text_of(R"({"a":{"b":{"c":"deep"}},"text":1})", "a.b.c"), "deep");
}

TEST(JsonField, WhatIsWrongIsSaid) {
  const auto refuse = [](const std::string& json, const std::string& part) {
    const std::string text = text_of(json);
    EXPECT_TRUE(text.starts_with("PROBLEM ")) << json;
    EXPECT_NE(text.find(part), text.npos) << text;
  };
  refuse(R"({"id":1,"content":"x"})", "'id', 'content'");
  refuse("{}", "no field 'text'");
  refuse(R"({"text":null})", "no string");
  refuse(R"({"text":"a","text":5})", "no string");
  refuse(R"(["text"])", "not a JSON object");
  refuse("", "not a JSON object");
  refuse(R"({"text":"a"} x)", "more than one");
  refuse(R"({"text":"\ud83c"})", "surrogate");
  refuse(R"({"text":"\udf0d\ud83c"})", "surrogate");
  refuse(R"({"text":"a)", "does not end");
  refuse("{\"text\":\"a\nb\"}", "not valid");
  for (const char* json :
       {R"({"text":"a",})", R"({"text" "a"})", R"({"x":01,"text":"a"})", R"({"x":1.,"text":"a"})",
        R"({"x":tru,"text":"a"})", R"({"x":[1,],"text":"a"})", R"({"text":"\x"})", R"({"text":"\u12g4"})",
        R"({'text':'a'})", R"({"x":-,"text":"a"})"})
    refuse(json, "not valid JSON at byte");
  refuse(R"({"x":)" + std::string(100'000, '[') + std::string(100'000, ']') + R"(,"text":"a"})", "deeper");
}

// Where the JSON library reads an object with such a string, so is it read here, to the same text; and
// nothing else is.
TEST(JsonField, AsTheLibraryReadsDamagedObjects) {
  const std::string whole =
      R"({"id": -12.5e3, "meta": {"text": "no", "tags": ["a", null, true, {"x": 0}]}, "text": "one \"two\" \u00e9\ud83c\udf0d\n"})";
  int read = 0;
  for (uint64_t i = 0; i < 4000; ++i) {
    const std::string json = testing::mutate(whole, RandomStream(3, "json", i));
    std::string text;
    const bool mine = read_json_field(json, "text", text).empty();
    const Json library = parse_json(json);
    const bool theirs = library.is_object() && library.contains("text") && library["text"].is_string();
    if (theirs) {
      ASSERT_TRUE(mine) << json;
      EXPECT_EQ(text, library["text"].get<std::string>()) << json;
      ++read;
    } else if (mine) {
      // The library also wants strings to be valid UTF-8.
      EXPECT_TRUE(library.is_discarded()) << json;
      EXPECT_TRUE(std::any_of(json.begin(), json.end(), [](char c) { return (c & 0x80) != 0; })) << json;
    }
  }
  EXPECT_GT(read, 200);
}

}  // namespace
}  // namespace tril
