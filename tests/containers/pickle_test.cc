#include "tril/containers/pickle.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"

namespace tril {
namespace {

using namespace std::string_literals;
using testing::expect_error;
using Kind = PickleValue::Kind;

Pickle read(const std::string& bytes) { return {bytes, "data.pkl"}; }
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string text(const std::string& utf8) {
  return "X" + std::string(1, static_cast<char>(utf8.size())) + "\0\0\0"s + utf8;
}
std::string pickled(const std::string& operations) { return "\x80\x02" + operations + "."; }

void expect_refused(const std::string& operations, std::string_view part) {
  const std::string bytes = pickled(operations);
  expect_error(ErrorKind::kData, {"data.pkl: ", part}, [&] { read(bytes); });
}

// pickle.dumps({'n': None, 't': True, 'f': False, 'i': -5, 'big': 2**40, 'huge': 2**80, 'x': 0.1,
//   's': 'caf\xe9', 'u': (1, 2, 3, 4), 'l': [1, [2]], 'e': (), 'od': collections.OrderedDict(k=1)}, protocol)
// of CPython 3.11
const std::string kProtocol2 =
    "\x80\x02}q\x00(X\x01\x00\x00\x00nq\x01NX\x01\x00\x00\x00tq\x02\x88X\x01\x00\x00\x00"
    "fq\x03\x89X\x01\x00\x00\x00iq\x04J\xfb\xff\xff\xffX\x03\x00\x00\x00"
    "bigq\x05\x8a\x06\x00\x00\x00\x00\x00\x01X\x04\x00\x00\x00"
    "hugeq\x06\x8a\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01X\x01\x00\x00\x00xq\x07G?"
    "\xb9\x99\x99\x99\x99\x99\x9a"
    "X\x01\x00\x00\x00sq\x08X\x05\x00\x00\x00"
    "caf\xc3\xa9q\tX\x01\x00\x00\x00uq\n(K\x01K\x02K\x03K\x04tq\x0bX\x01\x00\x00\x00lq\x0c]q\r(K\x01]"
    "q\x0eK\x02"
    "aeX\x01\x00\x00\x00"
    "eq\x0f)X\x02\x00\x00\x00odq\x10"
    "ccollections\nOrderedDict\nq\x11)Rq\x12X\x01\x00\x00\x00kq\x13K\x01su."s;
const std::string kProtocol4 =
    "\x80\x04\x95\xa8\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01n\x94N\x8c\x01t\x94\x88\x8c\x01"
    "f\x94\x89\x8c\x01i\x94J\xfb\xff\xff\xff\x8c\x03"
    "big\x94\x8a\x06\x00\x00\x00\x00\x00\x01\x8c\x04huge\x94\x8a\x0b\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x01\x8c\x01x\x94G?\xb9"
    "\x99\x99\x99\x99\x99\x9a\x8c\x01s\x94\x8c\x05"
    "caf\xc3\xa9\x94\x8c\x01u\x94(K\x01K\x02K\x03K\x04t\x94\x8c\x01l\x94]\x94(K\x01]\x94K\x02"
    "ae\x8c\x01"
    "e\x94)\x8c\x02od\x94\x8c\x0b"
    "collections\x94\x8c\x0bOrderedDict\x94\x93\x94)R\x94\x8c\x01k\x94K\x01su."s;

TEST(Pickle, ValuesOfBothProtocols) {
  for (const std::string& bytes : {kProtocol2, kProtocol4}) {
    const Pickle pickle = read(bytes);
    const PickleValue& root = pickle.root();
    const auto at = [&](std::string_view key) -> const PickleValue& { return *root.find(key); };
    ASSERT_EQ(root.kind, Kind::kDictionary);
    EXPECT_EQ(at("n").kind, Kind::kNone);
    EXPECT_EQ(at("t").kind, Kind::kFlag);
    EXPECT_EQ(at("t").integer, 1);
    EXPECT_EQ(at("f").integer, 0);
    EXPECT_EQ(at("i").integer, -5);
    EXPECT_EQ(at("big").integer, int64_t{1} << 40);
    EXPECT_EQ(at("huge").kind, Kind::kOther);
    EXPECT_EQ(at("x").number, 0.1);
    EXPECT_EQ(at("s").text, "caf\xc3\xa9");
    ASSERT_EQ(at("u").items.size(), 4u);
    EXPECT_EQ(at("u").items[3]->integer, 4);
    ASSERT_EQ(at("l").items.size(), 2u);
    EXPECT_EQ(at("l").items[1]->items[0]->integer, 2);
    EXPECT_EQ(at("e").kind, Kind::kTuple);
    EXPECT_EQ(at("od").find("k")->integer, 1);
    EXPECT_EQ(root.find("absent"), nullptr);
    EXPECT_EQ(at("i").find("k"), nullptr);
  }
}

TEST(Pickle, TheWriterWritesWhatIsRead) {
  PickleWriter writer;
  writer.begin_dictionary();
  const int64_t integers[] = {0, 255, 256, -1, -2147483648, 2147483648, INT64_MIN, INT64_MAX};
  for (const int64_t integer : integers) {
    writer.text(std::to_string(integer));
    writer.integer(integer);
  }
  writer.text("pi");
  writer.number(3.25);
  writer.text("flag");
  writer.flag(true);
  writer.text("none");
  writer.none();
  writer.text("pair");
  writer.begin_tuple();
  writer.text("a");
  writer.empty_tuple();
  writer.end_tuple();
  writer.end_dictionary();
  const std::string bytes = writer.finish();
  const Pickle pickle = read(bytes);
  for (const int64_t integer : integers)
    EXPECT_EQ(pickle.root().find(std::to_string(integer))->integer, integer);
  EXPECT_EQ(pickle.root().find("pi")->number, 3.25);
  EXPECT_EQ(pickle.root().find("flag")->integer, 1);
  EXPECT_EQ(pickle.root().find("none")->kind, Kind::kNone);
  EXPECT_EQ(pickle.root().find("pair")->items[0]->text, "a");
}

// What would run in Python is a value here.
TEST(Pickle, NothingIsRun) {
  for (const char* const module : {"os", "posix", "nt", "subprocess", "builtins"}) {
    const std::string bytes = pickled(global(module, "system") + text("echo") + "\x85R");
    const Pickle pickle = read(bytes);
    ASSERT_EQ(pickle.root().kind, Kind::kObject);
    EXPECT_TRUE(pickle.root().items[0]->is_global(module + ".system"s));
    EXPECT_EQ(pickle.root().items[1]->items[0]->text, "echo");
  }
  // By the names of protocol 4, and as the state of an object in the same dictionary.
  const std::string nested =
      pickled("}" + text("a") + text("builtins") + text("eval") + "\x93" + text("1/0") + "\x85Rs" +
              text("b") + global("m", "C") + ")\x81}" + text("k") + "K\x07sbs");
  const Pickle both = read(nested);
  ASSERT_NE(both.root().find("a"), nullptr);
  EXPECT_TRUE(both.root().find("a")->items[0]->is_global("builtins.eval"));
  ASSERT_NE(both.root().find("b"), nullptr);
  EXPECT_EQ(both.root().find("b")->find("k")->integer, 7);
  const std::string in_state =
      pickled(global("__main__", "Config") + ")\x81}" + text("f") + global("builtins", "eval") + text("1/0") +
              "\x85Rs" + text("n") + "K\x07sb");
  const Pickle pickle = read(in_state);
  EXPECT_EQ(pickle.root().kind, Kind::kObject);
  EXPECT_EQ(pickle.root().find("n")->integer, 7);
  EXPECT_TRUE(pickle.root().find("f")->items[0]->is_global("builtins.eval"));
}

// A list and a dictionary that contain themselves, and a chain of many lists.
TEST(Pickle, CyclesAndDepthAreSafe) {
  const std::string loop = pickled("]q\0h\0a"s);
  const Pickle self = read(loop);
  EXPECT_EQ(self.root().items[0], &self.root());
  const std::string bytes = pickled("}q\0"s + text("me") + "h\0s"s);
  const Pickle pickle = read(bytes);
  EXPECT_EQ(pickle.root().find("me")->find("me"), &pickle.root());
  const std::string deep = pickled(std::string(200000, ']') + std::string(199999, 'a'));
  EXPECT_EQ(read(deep).root().items.size(), 1u);
}

TEST(Pickle, NothingIsAllocatedByWhatIsClaimed) {
  expect_refused("X\xff\xff\xff\xff"s, "cut off");
  expect_refused("\x8d\xff\xff\xff\xff\xff\xff\xff\xff"s, "cut off");
  expect_refused("\x8e\xff\xff\xff\xff\xff\xff\xff\x7f"s, "cut off");
  expect_refused("\x8b\xff\xff\xff\xff"s, "cut off");
  expect_refused("Nr\xff\xff\xff\xff"s, "damaged");  // a huge memo
  expect_refused("Nr\x00\xff\xff\x00"s, "damaged");
  expect_refused(std::string((size_t{1} << 22) + 9, ']'), "more than 4194304 values");
  expect_refused("c" + std::string(300, 'm') + "\nx\n", "301 bytes");
}

TEST(Pickle, DamageIsRefused) {
  expect_error(ErrorKind::kData, {"no pickle of protocol 2 to 5"}, [] { read("(dp0\n."); });
  expect_error(ErrorKind::kData, {"no pickle of protocol 2 to 5"}, [] { read(""); });
  expect_error(ErrorKind::kData, {"no pickle of protocol 2 to 5"}, [] { read("\x80\x09N."); });
  expect_error(ErrorKind::kData, {"cut off"}, [] { read("\x80\x02N"); });
  for (const char* const operations :
       {"",      "NN",    "(",   "(N",   "(.",     "0",     "1",       "2",     "R",    "NR",  "b",    "Q",
        "h\x01", "K",     "G12", "\x85", "N\x86",  "a",     "Na",      "}Na",   "]NNs", "}Ns", "}(Nu", "(u",
        "u",     "](NNu", "(Nd", "\x93", "NN\x93", "q\x01", "(N(\x85", "(](Na", "cxy",  "(b"}) {
    const std::string bytes = pickled(operations);
    EXPECT_FALSE(testing::ends_well([&] { read(bytes); })) << operations;
  }
  expect_refused("P", "operation 0x50 at byte 2");
  expect_refused("\x97", "operation 0x97");
}

// Operations make the most of a mutation: most bytes are them.
TEST(Pickle, DamagedPickles) {
  const std::string others =
      "\x80\x04}q\x00(X\x01\x00\x00\x00"
      "a]q\x01(K\x01h\x01\x8a\x02\x01\x02NeX\x01\x00\x00\x00"
      "bcos\nsystem\n(h\x00t\x81}h\x00h\x01sb\x8c\x01"
      "c\x8f(K\x01\x90\x8c\x01"
      "d(K\x01\x91\x8c\x01"
      "eX\x07\x00\x00\x00storageQ\x94u."s;
  EXPECT_EQ(read(others).root().items.size(), 10u);
  int done = 0;
  for (uint64_t i = 0; i < 20000; ++i) {
    const std::string& from = i % 3 == 0 ? kProtocol2 : i % 3 == 1 ? kProtocol4 : others;
    const std::string bytes =
        testing::mutate(from, RandomStream(6, "pickle", i),
                        "}](){N\x88\x89KMJGXcq\x94hRbQtudsael\x81\x85\x86\x87\x8f\x90\x91\x92\x93\x32.\x80");
    done += testing::ends_well([&] {
      const Pickle pickle = read(bytes);
      EXPECT_LE(pickle.root().items.size(), bytes.size());
      if (const PickleValue* const value = pickle.root().find("a")) {
        EXPECT_LE(value->items.size(), bytes.size());
      }
    });
  }
  EXPECT_GT(done, 1000);
  EXPECT_LT(done, 15000);
}

}  // namespace
}  // namespace tril
