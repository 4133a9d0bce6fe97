#include "tril/containers/json.h"

#include <gtest/gtest.h>

#include <limits>

namespace tril {
namespace {

TEST(Json, RoundTripKeepsTheOrderOfKeys) {
  const std::string text = R"({"b":1,"a":[true,null,"x"],"c":{"d":0.5}})";
  EXPECT_EQ(to_text(parse_json(text)), text);
  EXPECT_EQ(to_text(parse_json("{\"b\":1}"), 2), "{\n  \"b\": 1\n}");
}

TEST(Json, WhatIsNotJsonIsDiscarded) {
  for (const char* text : {"", "{", "{\"a\":}", "[1,]", "nul", "{} {}", "{\"a\": \"\xff\"}"})
    EXPECT_TRUE(parse_json(text).is_discarded()) << text;
}

TEST(Json, RepeatedKeysOfTheOutermostObjectAreNamed) {
  std::string repeated;
  parse_json(R"({"a":1,"b":{"a":2,"c":3,"c":4}})", &repeated);
  EXPECT_EQ(repeated, "");
  EXPECT_EQ(parse_json(R"({"a":1,"b":2,"a":3})", &repeated)["a"], 3);
  EXPECT_EQ(repeated, "a");
}

TEST(Json, InvalidUtf8IsReplaced) { EXPECT_EQ(to_text(Json("a\xff")), "\"a\xef\xbf\xbd\""); }

TEST(Json, FloatsAreShortest) {
  EXPECT_EQ(to_text(shortest_number(0.1f)), "0.1");
  EXPECT_EQ(to_text(shortest_number(1e-5f)), "1e-05");
  EXPECT_EQ(to_text(shortest_number(std::numeric_limits<float>::infinity())), "null");
}

}  // namespace
}  // namespace tril
