#include "tril/containers/gguf.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"

namespace tril {
namespace {

using testing::expect_error;

template <class T>
std::string raw(T value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}
std::string text(std::string_view bytes) { return raw(uint64_t{bytes.size()}) + std::string(bytes); }
std::string start(uint64_t tensors, uint64_t fields, uint32_t version = 3) {
  return "GGUF" + raw(version) + raw(tensors) + raw(fields);
}
std::string field(std::string_view key, uint32_t type, const std::string& value) {
  return text(key) + raw(type) + value;
}
std::string tensor(std::string_view name, const std::vector<uint64_t>& sizes, uint32_t type,
                   uint64_t offset) {
  std::string out = text(name) + raw(static_cast<uint32_t>(sizes.size()));
  for (const uint64_t size : sizes) out += raw(size);
  return out + raw(type) + raw(offset);
}
// Padding and data.
std::string with_data(std::string bytes, size_t data) {
  bytes.resize((bytes.size() + 31) / 32 * 32 + data);
  return bytes;
}
GgufFile read(const std::string& bytes) { return {bytes, "model.gguf"}; }

std::string whole_file() {
  std::string bytes = start(2, 14);
  bytes += field("a.u8", 0, raw(uint8_t{200})) + field("a.i8", 1, raw(int8_t{-3})) +
           field("a.u16", 2, raw(uint16_t{60000})) + field("a.i16", 3, raw(int16_t{-3000})) +
           field("a.u32", 4, raw(4000000000u)) + field("a.i32", 5, raw(-7)) + field("a.f32", 6, raw(1.5f)) +
           field("a.bool", 7, raw(uint8_t{1})) + field("a.text", 8, text("hello")) +
           field("a.u64", 10, raw(uint64_t{1} << 40)) + field("a.i64", 11, raw(int64_t{-5})) +
           field("a.f64", 12, raw(0.25));
  bytes += field("a.texts", 9, raw(8u) + raw(uint64_t{3}) + text("x") + text("") + text("yz"));
  bytes += field("a.numbers", 9, raw(6u) + raw(uint64_t{2}) + raw(0.5f) + raw(-1.0f));
  bytes += tensor("w", {64, 2}, 8, 0) + tensor("b", {3}, 0, 160);
  return with_data(bytes, 160 + 12);
}

TEST(Gguf, ReadsEveryType) {
  const std::string bytes = whole_file();
  const GgufFile file = read(bytes);
  ASSERT_EQ(file.fields().size(), 14u);
  EXPECT_EQ(file.integer("a.u8"), 200);
  EXPECT_EQ(file.integer("a.i8"), -3);
  EXPECT_EQ(file.integer("a.u16"), 60000);
  EXPECT_EQ(file.integer("a.i16"), -3000);
  EXPECT_EQ(file.integer("a.u32"), 4000000000);
  EXPECT_EQ(file.integer("a.i32"), -7);
  EXPECT_EQ(file.integer("a.u64"), int64_t{1} << 40);
  EXPECT_EQ(file.integer("a.i64"), -5);
  EXPECT_EQ(file.boolean("a.bool"), true);
  EXPECT_EQ(file.text("a.text"), "hello");
  EXPECT_EQ(file.texts("a.texts"), (std::vector<std::string_view>{"x", "", "yz"}));
  EXPECT_EQ(file.numbers("a.numbers"), (std::vector<float>{0.5f, -1.0f}));
  EXPECT_EQ(file.integer("absent"), std::nullopt);
  EXPECT_TRUE(file.texts("absent").empty());
  expect_error(ErrorKind::kData, {"model.gguf", "\"a.text\" is string where an integer"},
               [&] { file.integer("a.text"); });
  expect_error(ErrorKind::kData, {"\"a.texts\" is an array of string where a string"},
               [&] { file.text("a.texts"); });
  expect_error(ErrorKind::kData, {"array of integers"}, [&] { file.integers("a.numbers"); });
}

TEST(Gguf, TensorsAreRowMajorAndLieInTheFile) {
  const std::string bytes = whole_file();
  const GgufFile file = read(bytes);
  ASSERT_EQ(file.tensors().size(), 2u);
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<int64_t>{2, 64}));
  EXPECT_EQ(file.tensors()[0].size, 2 * 2 * 34);
  EXPECT_EQ(file.tensors()[1].size, 12);
  EXPECT_EQ(file.tensors()[1].offset, bytes.size() - 12);
  EXPECT_EQ(read(with_data(start(1, 0) + tensor("t", {256}, 99, 0), 0)).tensors()[0].size, std::nullopt);
}

TEST(Gguf, DamageIsNamed) {
  const auto refused = [](std::initializer_list<std::string_view> parts, const std::string& bytes) {
    expect_error(ErrorKind::kData, parts, [&] { read(bytes); });
  };
  refused({"model.gguf: this is no GGUF file"}, "");
  refused({"no GGUF file"}, "PK\x03\x04");
  refused({"claimed at byte 4, but only 0 follow"}, "GGUF");
  refused({"version 1 is not supported"}, start(0, 0, 1));
  refused({"big-endian"}, start(0, 0, 0x03000000));
  // Gigabytes are claimed, none is there: no memory is asked for.
  refused({"but only 0 follow"}, start(0, uint64_t{1} << 60));
  refused({"but only 0 follow"}, start(uint64_t{1} << 60, 0));
  refused({"1152921504606846976 bytes are claimed"}, start(0, 1) + raw(uint64_t{1} << 60) + "key");
  refused({"\"k\": 18446744073709551615 bytes are claimed"},
          start(0, 1) + field("k", 9, raw(6u) + raw(uint64_t{1} << 62)));
  refused({"\"k\": 8 bytes are claimed"}, start(0, 1) + field("k", 9, raw(8u) + raw(uint64_t{1} << 62)));
  refused({"\"k\": the type 13 is unknown"}, start(0, 1) + field("k", 13, ""));
  refused({"arrays of arrays"}, start(0, 1) + field("k", 9, raw(9u) + raw(uint64_t{0})));
  refused({"a key of 0 bytes"}, start(0, 1) + field("", 0, "x"));
  refused({"\"k\" is there twice"}, start(0, 2) + field("k", 0, "x") + field("k", 0, "x"));
  const std::string t = tensor("t", {4}, 0, 0);
  refused({"tensor \"t\" is there twice"}, with_data(start(2, 0) + t + t, 64));
  refused({"5 dimensions"}, start(1, 0) + tensor("t", {1, 1, 1, 1, 1}, 0, 0));
  refused({"impossibly large"}, start(1, 0) + tensor("t", {uint64_t{1} << 40, uint64_t{1} << 40}, 0, 0));
  refused({"dimension of 9223372036854775808"}, start(1, 0) + tensor("t", {uint64_t{1} << 63}, 0, 0));
  refused({"not whole blocks of 32"}, start(1, 0) + tensor("t", {33}, 8, 0));
  refused({"no multiple of 32"}, with_data(start(1, 0) + tensor("t", {4}, 0, 4), 64));
  refused({"16 bytes at 0, beyond the 15 bytes"}, with_data(start(1, 0) + t, 15));
  refused({"beyond the 64 bytes"}, with_data(start(1, 0) + tensor("t", {4}, 0, uint64_t{1} << 63), 64));
  refused({"general.alignment 24"}, with_data(start(1, 1) + field("general.alignment", 4, raw(24u)) + t, 64));
}

TEST(Gguf, WrittenHeadersAreRead) {
  GgufHeader header;
  header.add("name", std::string_view("x"));
  header.add("count", 7u);
  header.add("rate", 0.5f);
  header.add_flag("yes", true);
  header.add("texts", std::vector<std::string>{"a", "bc"});
  header.add("ids", std::vector<int32_t>{1, -2});
  header.add("scores", std::vector<float>{0.25f});
  const std::string bytes = header.without_tensors();
  const GgufFile file = read(bytes);
  EXPECT_EQ(file.text("name"), "x");
  EXPECT_EQ(file.integer("count"), 7);
  EXPECT_EQ(file.boolean("yes"), true);
  EXPECT_EQ(file.texts("texts"), (std::vector<std::string_view>{"a", "bc"}));
  EXPECT_EQ(file.integers("ids"), (std::vector<int64_t>{1, -2}));
  EXPECT_EQ(file.numbers("scores"), std::vector<float>{0.25f});
  EXPECT_EQ(bytes.size() % 32, 0u);
}

// Whether the file is accepted; every value of it can then be read, and lies in it.
bool read_all(const std::string& bytes) {
  return testing::ends_well([&] {
    const GgufFile file = read(bytes);
    for (const GgufField& f : file.fields()) {
      EXPECT_LE(f.bytes.size(), bytes.size());
      if (f.element == GgufType::kString && f.type == GgufType::kArray) file.texts(f.key);
    }
    for (const GgufTensor& t : file.tensors()) {
      EXPECT_LE(t.offset, bytes.size() + 31);
      EXPECT_LE(t.size.value_or(0) > 0 ? t.offset + static_cast<uint64_t>(*t.size) : 0, bytes.size());
    }
  });
}

TEST(GgufFuzz, DamagedFilesAreRefusedOrRead) {
  const std::string good = whole_file();
  for (size_t size = 0; size < good.size(); size += 3) EXPECT_FALSE(read_all(good.substr(0, size))) << size;
  int accepted = 0;
  for (uint64_t i = 0; i < 3000; ++i)
    accepted += read_all(
        testing::mutate(good, RandomStream(1, "gguf", i), std::string_view("\0\1\2\3\4\xff\x80GF", 9)));
  for (uint64_t i = 0; i < 3000; ++i) {
    const RandomStream random(2, "gguf", i);
    accepted +=
        read_all(testing::mutate_number(good, random.below(9, good.size()), 1 + random.below(10, 8), random));
  }
  EXPECT_GT(accepted, 300);
  EXPECT_LT(accepted, 4500);
}

}  // namespace
}  // namespace tril
