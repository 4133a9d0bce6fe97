// Thousands of damaged files, the same in every run: reading them ends in an Error or in arrays that lie
// within the file and fit their shapes. Sanitizers make the most of it.
#include <gtest/gtest.h>

#include "tests/containers/safetensors_bytes.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_directory.h"
#include "tril/base/random.h"
#include "tril/containers/safetensors.h"

namespace tril {
namespace {

using testing::TemporaryDirectory;

const std::string kHeader =
    R"({"__metadata__":{"format":"pt","note":"x"},"wte.weight":{"dtype":"F32","shape":[4,3],"data_offsets":[0,48]},)"
    R"("steps":{"dtype":"I64","shape":[],"data_offsets":[48,56]},"bytes":{"dtype":"U8","shape":[2,0,5],)"
    R"("data_offsets":[56,56]},"half":{"dtype":"BF16","shape":[3],"data_offsets":[56,62]}})";

// Reads all bytes; counts how a file of these bytes ended.
void read_damaged(const Path& path, std::string_view content, int* read, int* refused) {
  testing::write_bytes(path, content);
  try {
    const SafetensorsFile file(path);
    unsigned sum = 0;
    size_t bytes = 0;
    for (const NamedArray& array : file.arrays()) {
      for (const std::byte b : array.bytes) sum += static_cast<unsigned>(b);
      bytes += array.bytes.size();
      EXPECT_EQ(file.find(array.name), &array);
      EXPECT_LE(array.elements(), static_cast<int64_t>(2 * array.bytes.size()));
    }
    EXPECT_LE(bytes, content.size());
    EXPECT_LE(sum, 255 * content.size());
    ++*read;
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::kData);
    const std::string_view message = e.what();
    EXPECT_TRUE(message.starts_with(path.native() + ": ")) << message;
    EXPECT_EQ(message.find_first_of("\n\r\x1b"), message.npos) << message;
    ++*refused;
  }  // anything else fails the test
}

std::string mutate(std::string text, const RandomStream& random) {
  return testing::mutate(std::move(text), random,
                         std::string_view("{}[]\",:\\0123456789-.eE \n\xff\x00\x80nt_", 30));
}

class SafetensorsFuzz : public ::testing::Test {
 protected:
  TemporaryDirectory dir_;
  const std::string data_ = std::string(62, 'd');
  int read_ = 0, refused_ = 0;
};

TEST_F(SafetensorsFuzz, TheUndamagedFileIsRead) {
  read_damaged(dir_ / "f", testing::safetensors_bytes(kHeader, data_), &read_, &refused_);
  EXPECT_EQ(read_, 1);
}

// The header's size is right, so that the changes reach the parser.
TEST_F(SafetensorsFuzz, ChangedHeaders) {
  for (uint64_t i = 0; i < 3000; ++i) {
    const std::string header = mutate(kHeader, RandomStream(1, "fuzz", i));
    SCOPED_TRACE(header);
    read_damaged(dir_ / "f", testing::safetensors_bytes(header, data_), &read_, &refused_);
  }
  EXPECT_GT(read_, 50);  // some changes do no harm: another name, another note
  EXPECT_GT(refused_, 2000);
}

TEST_F(SafetensorsFuzz, ChangedFiles) {
  const std::string whole = testing::safetensors_bytes(kHeader, data_);
  for (uint64_t i = 0; i < 1000; ++i)
    read_damaged(dir_ / "f", mutate(whole, RandomStream(2, "fuzz", i)), &read_, &refused_);
  EXPECT_GT(read_, 10);
  EXPECT_GT(refused_, 500);
}

TEST_F(SafetensorsFuzz, EveryTruncation) {
  const std::string whole = testing::safetensors_bytes(kHeader, data_);
  for (size_t size = 0; size < whole.size(); ++size)
    read_damaged(dir_ / "f", std::string_view(whole).substr(0, size), &read_, &refused_);
  EXPECT_EQ(read_, 0);
}

}  // namespace
}  // namespace tril
