// Texts and files for the tests of text and data.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>

#include "tril/base/error.h"
#include "tril/base/random.h"

namespace tril::testing {

// An empty folder that goes away with the object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tril-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::filesystem::path write(const std::string& name, const std::string& content) const {
    const auto path = path_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline std::optional<std::filesystem::path> test_data() {
  const char* folder = std::getenv("TRIL_TEST_DATA");
  if (folder == nullptr) return std::nullopt;
  return folder;
}
#define TRIL_NEEDS_TEST_DATA() \
  if (!::tril::testing::test_data()) GTEST_SKIP() << "TRIL_TEST_DATA is not set"

inline std::string slurp(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

// The message of the Error that `body` throws; fails the test if it throws none or one of another kind.
template <class Body>
std::string message_of(ErrorKind kind, Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.kind()), static_cast<int>(kind)) << error.what();
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "one line: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

inline void expect_contains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << "\"" << part << "\" is not in: " << text;
}

inline std::string from_base64(const std::string& text) {
  const std::string alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(alphabet.find(c));
    count += 6;
    if (count >= 8) {
      count -= 8;
      out.push_back(static_cast<char>(bits >> count & 0xFF));
    }
  }
  return out;
}

// Bytes from a mix of alphabets: letters and spaces, characters of several lengths, anything at all.
inline std::string random_text(uint64_t seed, size_t length, bool valid_utf8) {
  static constexpr const char* kParts[] = {"a",
                                           "b",
                                           "the",
                                           " ",
                                           "  ",
                                           "\n",
                                           "'s",
                                           "'ll",
                                           "'",
                                           "9",
                                           "42",
                                           "!",
                                           "\xC3\xA9",
                                           "\xE4\xB8\xAD",
                                           "\xF0\x9F\x8C\x8D",
                                           "\t",
                                           "\xC2\xA0",
                                           "Z",
                                           "\r\n",
                                           "\xE2\x80\x83",
                                           "_",
                                           "\xCC\x81"};
  const RandomStream random(seed, "text");
  std::string out;
  for (uint64_t i = 0; out.size() < length; ++i) {
    if (!valid_utf8 && random.below(2 * i, 4) == 0) {
      out.push_back(static_cast<char>(random.below(2 * i + 1, 256)));
    } else {
      out += kParts[random.below(2 * i + 1, std::size(kParts))];
    }
  }
  return out;
}

}  // namespace tril::testing
