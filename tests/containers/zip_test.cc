#include "tril/containers/zip.h"

#include <gtest/gtest.h>

#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_directory.h"

namespace tril {
namespace {

using testing::expect_error;

constexpr std::string_view kLong =
    "a text of more than sixty-four bytes, so that the next entry begins further on";

class Zip : public ::testing::Test {
 protected:
  // Three entries; numbers from `narrow` on stand in zip64 records.
  std::string written(uint64_t narrow = 0xFFFFFFFF) {
    ZipWriter writer(folder_ / "a.zip", narrow);
    writer.add("b/first", kLong);
    writer.add("b/empty", "");
    writer.add("a", "last");
    writer.finish();
    return read_text_file(folder_ / "a.zip");
  }
  static std::string changed(std::string bytes, size_t at, std::string_view to) {
    return bytes.replace(at, to.size(), to);
  }
  static void expect_refused(const std::string& bytes, std::initializer_list<std::string_view> parts) {
    expect_error(ErrorKind::kData, parts, [&] { ZipFile(bytes, "a.zip").check_checksums(); });
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(Zip, WhatIsWrittenIsRead) {
  const std::string plain = written();
  for (const uint64_t narrow : {uint64_t{0xFFFFFFFF}, uint64_t{0}, uint64_t{1}, uint64_t{20}}) {
    const std::string bytes = written(narrow);
    EXPECT_EQ(bytes == plain, narrow == 0xFFFFFFFF) << narrow;
    const ZipFile file(folder_ / "a.zip");
    file.check_checksums();
    ASSERT_EQ(file.entries().size(), 3u);
    ASSERT_NE(file.find("b/first"), nullptr);
    EXPECT_EQ(file.find("b/first")->bytes, kLong);
    EXPECT_EQ(file.find("b/empty")->bytes, "");
    EXPECT_EQ(file.find("a")->bytes, "last");
    EXPECT_EQ(file.find("b"), nullptr);
    for (const ZipEntry& entry : file.entries())
      EXPECT_EQ(reinterpret_cast<uintptr_t>(entry.bytes.data()) % 64, 0u) << entry.name;
    EXPECT_TRUE(is_zip(bytes));
  }
}

TEST_F(Zip, TheWriterRefusesNamesTwice) {
  ZipWriter writer(folder_ / "a.zip");
  writer.add("a", "x");
  expect_error(ErrorKind::kUse, {"\"a\"", "already"}, [&] { writer.add("a", "y"); });
  expect_error(ErrorKind::kUse, {"0 bytes"}, [&] { writer.add("", "y"); });
}

TEST_F(Zip, DamageIsNamed) {
  const std::string whole = written();
  const size_t central = whole.find("PK\x01\x02"), end = whole.find("PK\x05\x06"),
               local = whole.rfind("PK\x03\x04");
  ASSERT_NE(central, whole.npos);
  expect_refused(whole.substr(0, end), {"a.zip", "no directory"});
  expect_refused(changed(whole, end + 16, "\xFF\xFF\xFF\x7F"), {"2147483647"});
  expect_refused(changed(whole, end + 10, "\x09\x09"), {"cannot list 2313 entries"});
  expect_refused(changed(whole, central + 10, "\x08"), {"\"a\"", "compressed"});
  expect_refused(changed(whole, central + 8, "\x01"), {"\"a\"", "encrypted"});
  expect_refused(changed(whole, central + 20, std::string("\xFF\xFF\x00\x00\xFF\xFF\x00\x00", 8)),
                 {"\"a\"", "65535 bytes at byte"});
  expect_refused(changed(whole, central + 42, "\x01"), {"\"a\"", "is not at byte"});
  expect_refused(changed(whole, central + 24, "\x01"), {"\"a\"", "is not at byte"});
  expect_refused(changed(whole, central + 42, "\xFF\xFF\xFF\xFF"), {"\"a\"", "zip64"});
  expect_refused(changed(whole, whole.rfind("last"), "lost"), {"\"a\"", "checksum", "altered or damaged"});
  expect_refused(changed(whole, local, "PX"), {"is not at byte"});
  // The names of all entries are one byte or seven: "b/empty" becomes a second "b/first".
  std::string twice = whole;
  for (size_t at = 0; (at = twice.find("b/empty", at)) != twice.npos;) twice.replace(at, 7, "b/first");
  expect_refused(twice, {"\"b/first\" is there twice"});
}

TEST_F(Zip, AChecksumOfZeroWasNotComputed) {
  const std::string whole = written();
  const size_t central = whole.find("PK\x01\x02");
  const std::string bytes =
      changed(changed(whole, central + 16, std::string(4, '\0')), whole.rfind("last"), "lost");
  const ZipFile file(bytes, "a.zip");
  file.check_checksums();
  EXPECT_EQ(file.find("a")->bytes, "lost");
}

TEST_F(Zip, ACommentMayFollow) {
  std::string bytes = written();
  bytes[bytes.size() - 2] = 7;
  bytes += "comment";
  EXPECT_EQ(ZipFile(bytes, "a.zip").entries().size(), 3u);
  expect_refused(bytes + "x", {"no directory"});
}

TEST_F(Zip, DamagedFiles) {
  const std::string whole[] = {written(), written(0), written(20)};
  int read = 0;
  constexpr uint64_t kFiles = 6000;
  for (uint64_t i = 0; i < kFiles; ++i) {
    const RandomStream random(5, "zip", i);
    const std::string& from = whole[i % 3];
    const std::string bytes = i % 2 == 0
                                  ? testing::mutate(from, random)
                                  : testing::mutate_number(from, random.below(9, from.size()), 4, random);
    read += testing::ends_well([&] {
      const ZipFile file(bytes, "a.zip");
      for (const ZipEntry& entry : file.entries()) {
        EXPECT_GE(entry.bytes.data(), bytes.data());
        EXPECT_LE(entry.bytes.data() + entry.bytes.size(), bytes.data() + bytes.size());
      }
      file.check_checksums();
    });
  }
  EXPECT_GT(read, 100);
  EXPECT_LT(read, static_cast<int>(kFiles) * 3 / 4);
  for (const std::string& bytes : whole)
    for (size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(testing::ends_well([&] { ZipFile(bytes.substr(0, size), "a.zip"); })) << size;
}

}  // namespace
}  // namespace tril
