// Every way in which a safetensors file can be wrong, each with its message.
#include <gtest/gtest.h>

#include "tests/containers/safetensors_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tril/containers/safetensors.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::safetensors_bytes;
using testing::TemporaryDirectory;
using testing::write_bytes;

class SafetensorsDamage : public ::testing::Test {
 protected:
  void expect_refused(std::initializer_list<std::string_view> parts, std::string_view content) {
    write_bytes(dir_ / "f", content);
    expect_error(ErrorKind::kData, parts, [&] { SafetensorsFile(dir_ / "f"); });
    expect_error(ErrorKind::kData, {"/f: "}, [&] { SafetensorsFile(dir_ / "f"); });
  }
  // A header over `data_bytes` bytes of data.
  void expect_header_refused(std::initializer_list<std::string_view> parts, std::string_view header,
                             size_t data_bytes = 0) {
    SCOPED_TRACE(std::string(header.substr(0, 200)));
    expect_refused(parts, safetensors_bytes(header, std::string(data_bytes, 'd')));
  }

  TemporaryDirectory dir_;
};

TEST_F(SafetensorsDamage, TooShortOrEmpty) {
  expect_refused({"0 bytes are too few for a safetensors file"}, "");
  expect_refused({"7 bytes are too few"}, "1234567");
  expect_refused({"header does not begin with '{'"}, std::string(8, '\0'));
  expect_error(ErrorKind::kData, {"/absent: cannot open: No such file"},
               [&] { SafetensorsFile(dir_ / "absent"); });
  expect_error(ErrorKind::kData, {"this is a directory"}, [&] { SafetensorsFile{dir_.path()}; });
}

TEST_F(SafetensorsDamage, HeaderSizeBeyondTheFile) {
  expect_refused({"the header should have 100 bytes, but only 2 follow; the file is cut off"},
                 std::string("d\0\0\0\0\0\0\0{}", 10));
  // 2^63 and 2^64 - 1: no memory is asked for, no sum wraps.
  expect_refused({"should have 9223372036854775808 bytes"}, std::string("\0\0\0\0\0\0\0\x80{}", 10));
  expect_refused({"should have 18446744073709551615 bytes"}, std::string(8, '\xff') + "{}");
}

TEST_F(SafetensorsDamage, HeaderAboveTheFormatsLimit) {
  write_bytes(dir_ / "f", std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10));  // 100,000,001
  std::filesystem::resize_file(dir_ / "f", 200'000'000);                   // a hole: takes no disk
  expect_error(ErrorKind::kData, {"the header has 100000001 bytes, above the format's limit of 100000000"},
               [&] { SafetensorsFile(dir_ / "f"); });
}

TEST_F(SafetensorsDamage, OtherFilesAreNamed) {
  expect_refused({"this is a Git LFS pointer, not the file itself; fetch it with: git lfs pull"},
                 "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n");
  expect_refused({"this is a GGUF file"}, std::string("GGUF\3\0\0\0\0\0\0\0", 12));
  expect_refused({"this is a zip or PyTorch file"}, "PK\3\4 and more of it");
  expect_refused({"this is an HDF5 file"}, "\x89HDF\r\n\x1a\n and more");
  expect_refused({"this is a web page"}, "<!DOCTYPE html><html></html>");
  expect_refused({"this is JSON text"}, "{\"weight_map\": {}}");
  expect_refused({"this is JSON text"}, "{}");
}

TEST_F(SafetensorsDamage, HeaderThatIsNotJson) {
  expect_header_refused({"not JSON at byte 2, near"}, "{");
  expect_header_refused({"header does not begin with '{'"}, "[]");
  expect_header_refused({"header does not begin with '{'"}, " {}");
  expect_header_refused({"not JSON at byte"}, "{}x");
  expect_header_refused({"not JSON at byte 3: a NUL"}, std::string("{}\0\0", 4));
  expect_header_refused({"not JSON at byte"}, "{}{}");
  expect_header_refused({"not JSON at byte"}, "{\"a\":}");
  expect_header_refused({"not JSON at byte"}, "{'a': 1}");
  expect_header_refused({"not JSON at byte"}, "{/* no comments */}");
  expect_header_refused({"not JSON at byte", "\\xff"}, "{\"a\xff\": 1}");
  expect_header_refused({"not JSON at byte"}, "{\"a\n\": 1}");
  expect_header_refused({"not JSON at byte"}, "{\"\\ud800\": 1}");
}

TEST_F(SafetensorsDamage, DeepNesting) {
  std::string deep(1'000'000, '[');
  expect_header_refused({"entry \"a\": an array where an object is expected"}, "{\"a\":" + deep);
  expect_header_refused({"shape: an array where whole numbers"}, "{\"a\":{\"shape\":[" + deep);
  std::string objects = "{";
  for (int i = 0; i < 200'000; ++i) objects += "\"a\":{";
  expect_header_refused({"entry \"a\": the key \"a\" is unknown"}, objects);
}

TEST_F(SafetensorsDamage, NamesThatOccurTwice) {
  const std::string a = "\"a\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}";
  expect_header_refused({"entry \"a\": the name occurs twice"}, "{" + a + "," + a + "}");
  // The same name in another spelling.
  expect_header_refused({"entry \"a\": the name occurs twice"}, "{" + a + ",\"\\u0061" + a.substr(2) + "}");
  expect_header_refused({"entry \"__metadata__\": the name occurs twice"},
                        "{\"__metadata__\":{},\"__metadata__\":{}}");
  expect_header_refused({"entry \"k\": the metadata key occurs twice"},
                        "{\"__metadata__\":{\"k\":\"1\",\"k\":\"2\"}}");
  for (const std::string field : {"\"dtype\":\"U8\"", "\"shape\":[0]", "\"data_offsets\":[0,0]"})
    expect_header_refused({"entry \"a\": dtype, shape or data_offsets occurs twice"},
                          "{\"a\":{" + field + "," + field + "}}");
}

TEST_F(SafetensorsDamage, EntriesOfTheWrongKind) {
  for (const auto& [value, what] : {std::pair{"null", "null"},
                                    {"true", "a boolean"},
                                    {"1", "a number"},
                                    {"-1", "a negative number"},
                                    {"1.5", "a fraction or a huge number"},
                                    {"\"x\"", "a string"},
                                    {"[]", "an array"}}) {
    const std::string w = what, v = value;
    expect_header_refused({"entry \"a\": " + w + " where an object is expected"}, "{\"a\":" + v + "}");
    expect_header_refused({"\"__metadata__\": " + w + " where an object of strings is expected"},
                          "{\"__metadata__\":" + v + "}");
    if (v != "\"x\"") {
      expect_header_refused({"\"__metadata__\": \"k\" is " + w + " where a string is expected"},
                            "{\"__metadata__\":{\"k\":" + v + "}}");
      expect_header_refused({"entry \"a\": dtype is " + w + " where a string is expected"},
                            "{\"a\":{\"dtype\":" + v + "}}");
    }
    if (v != "[]") {
      expect_header_refused({"entry \"a\": shape: " + w + " where whole numbers"},
                            "{\"a\":{\"shape\":" + v + "}}");
      expect_header_refused({"entry \"a\": data_offsets: " + w + " where two whole numbers"},
                            "{\"a\":{\"data_offsets\":" + v + "}}");
    }
    if (v != "1") {
      expect_header_refused({"entry \"a\": shape: " + w + " where whole numbers"},
                            "{\"a\":{\"shape\":[" + v + "]}}");
      expect_header_refused({"entry \"a\": data_offsets: " + w + " where two whole numbers"},
                            "{\"a\":{\"data_offsets\":[0," + v + "]}}");
    }
  }
  expect_header_refused({"\"__metadata__\": \"k\" is an object where a string"},
                        "{\"__metadata__\":{\"k\":{}}}");
  expect_header_refused({"entry \"a\": the key \"x\" is unknown"}, "{\"a\":{\"x\":1}}");
}

TEST_F(SafetensorsDamage, NumbersBeyondTheRange) {
  expect_header_refused({"shape: a number above 2^63-1 where"}, "{\"a\":{\"shape\":[9223372036854775808]}}");
  expect_header_refused({"shape: a fraction or a huge number"}, "{\"a\":{\"shape\":[18446744073709551616]}}");
  expect_header_refused({"shape: a fraction or a huge number"}, "{\"a\":{\"shape\":[1e2]}}");
  expect_header_refused({"shape: a negative number"}, "{\"a\":{\"shape\":[-0]}}");
}

TEST_F(SafetensorsDamage, IncompleteEntries) {
  expect_header_refused({"\"a\": dtype, shape or data_offsets (two numbers) is missing"}, "{\"a\":{}}");
  expect_header_refused({"is missing"}, "{\"a\":{\"shape\":[],\"data_offsets\":[0,1]}}", 1);
  expect_header_refused({"is missing"}, "{\"a\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}", 1);
  expect_header_refused({"is missing"}, "{\"a\":{\"dtype\":\"U8\",\"shape\":[]}}", 1);
  expect_header_refused({"is missing"}, "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0]}}", 1);
  expect_header_refused({"data_offsets has more than two numbers"},
                        "{\"a\":{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1,2]}}", 1);
}

std::string entry(std::string_view dtype, std::string_view shape, std::string_view offsets) {
  return fmt::format("{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{}]}}", dtype, shape, offsets);
}

TEST_F(SafetensorsDamage, ElementTypes) {
  expect_header_refused({"tensor \"a\": the dtype \"F128\" is unknown; save the tensor as F32"},
                        "{\"a\":" + entry("F128", "1", "0,16") + "}", 16);
  expect_header_refused({"the dtype \"f32\" is unknown"}, "{\"a\":" + entry("f32", "1", "0,4") + "}", 4);
  expect_header_refused({"the dtype \"\" is unknown"}, "{\"a\":" + entry("", "1", "0,4") + "}", 4);
  expect_header_refused({"tensor \"a\": 3 elements of F4 are not whole bytes"},
                        "{\"a\":" + entry("F4", "3", "0,2") + "}", 2);
}

TEST_F(SafetensorsDamage, ShapesThatOverflow) {
  const char* const huge = "4294967296,4294967296";
  expect_header_refused({"tensor \"a\": the shape (4294967296, 4294967296) is impossibly large"},
                        "{\"a\":" + entry("U8", huge, "0,0") + "}");
  expect_header_refused({"is impossibly large"},
                        "{\"a\":" + entry("F64", "1152921504606846976", "0,0") + "}");
  expect_header_refused({"is impossibly large"},
                        "{\"a\":" + entry("U8", std::string(huge) + ",0", "0,0") + "}");
  std::string many = "2";
  for (int i = 0; i < 1000; ++i) many += ",2";
  expect_header_refused({"is impossibly large"}, "{\"a\":" + entry("U8", many, "0,0") + "}");
}

TEST_F(SafetensorsDamage, OffsetsThatDoNotFitTheShape) {
  const auto refused = [&](std::string_view offsets, std::string_view shown) {
    expect_header_refused(
        {fmt::format("tensor \"a\": data_offsets [{}] do not fit the 24 bytes of F32 (2, 3)", shown)},
        "{\"a\":" + entry("F32", "2,3", offsets) + "}", 24);
  };
  refused("0,20", "0, 20");
  refused("0,28", "0, 28");
  refused("24,0", "24, 0");
  refused("0,9223372036854775807", "0, 9223372036854775807");
  refused("9223372036854775807,0", "9223372036854775807, 0");
}

TEST_F(SafetensorsDamage, CutOffData) {
  expect_header_refused(
      {"tensor \"a\": data_offsets [0, 24] lie beyond the 23 bytes of data; the file is cut off"},
      "{\"a\":" + entry("F32", "2,3", "0,24") + "}", 23);
}

TEST_F(SafetensorsDamage, HolesOverlapsAndRemains) {
  const std::string a = "{\"a\":" + entry("U8", "4", "0,4");
  expect_header_refused({": 2 bytes before tensor \"b\" belong to no tensor"},
                        a + ",\"b\":" + entry("U8", "4", "6,10") + "}", 10);
  expect_header_refused({": 6 bytes before tensor \"a\" belong to no tensor"},
                        "{\"a\":" + entry("U8", "4", "6,10") + "}", 10);
  expect_header_refused({"tensor \"b\" overlaps another by 1 bytes"},
                        a + ",\"b\":" + entry("U8", "4", "3,7") + "}", 7);
  expect_header_refused({"overlaps another by 4 bytes"}, a + ",\"b\":" + entry("U8", "4", "0,4") + "}", 4);
  expect_header_refused({": 3 bytes at the end belong to no tensor"}, a + "}", 7);
  expect_header_refused({": 3 bytes at the end belong to no tensor"}, "{}", 3);
}

TEST_F(SafetensorsDamage, NamesInMessagesAreMadeHarmless) {
  expect_header_refused({"tensor \"a\\x0a\\x1b[31m\": the dtype \"\\x07\" is unknown"},
                        "{\"a\\n\\u001b[31m\":" + entry("\\u0007", "1", "0,4") + "}", 4);
  expect_header_refused({"entry \"" + std::string(200, 'n') + "...\": null"},
                        "{\"" + std::string(100'000, 'n') + "\":null}");
}

}  // namespace
}  // namespace tril
