#include "tril/containers/tfrecord.h"

#include <gtest/gtest.h>

#include "tril/base/bytes.h"

namespace tril {
namespace {

TEST(TfRecord, MaskedChecksum) {
  // 0xE3069283 turned right by 15 bits is 0x2507C60D.
  EXPECT_EQ(mask_crc32c(0xE3069283u), 0x2507C60Du + 0xA282EAD8u);
  EXPECT_EQ(mask_crc32c(0), 0xA282EAD8u);
}

TEST(TfRecord, LengthAndDataEachWithTheirChecksum) {
  std::string out = "before";
  append_tfrecord(out, "123456789");
  ASSERT_EQ(out.size(), 6u + 8 + 4 + 9 + 4);
  EXPECT_EQ(out.substr(6, 8), std::string("\x09\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(out.substr(14, 4), "\x37\xf9\x71\x39");
  EXPECT_EQ(out.substr(18, 9), "123456789");
  std::string checksum;
  append_number(checksum, mask_crc32c(0xE3069283u));
  EXPECT_EQ(out.substr(27), checksum);
  EXPECT_EQ(checksum, "\xe5\xb0\x8a\xc7");
}

TEST(TfRecord, AnEmptyRecord) {
  std::string out;
  append_tfrecord(out, "");
  ASSERT_EQ(out.size(), 16u);
  EXPECT_EQ(out.substr(8, 4), "\x29\x03\x98\x07");
  EXPECT_EQ(out.substr(12), std::string("\xd8\xea\x82\xa2", 4));
}

}  // namespace
}  // namespace tril
