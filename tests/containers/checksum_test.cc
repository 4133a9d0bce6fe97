#include "tril/containers/checksum.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace tril {
namespace {

uint32_t crc32_of(std::string_view text, uint32_t previous = 0) {
  return crc32(std::as_bytes(std::span(text)), previous);
}
uint32_t crc32c_of(std::string_view text, uint32_t previous = 0) {
  return crc32c(std::as_bytes(std::span(text)), previous);
}

TEST(Checksum, KnownAnswers) {
  EXPECT_EQ(crc32_of(""), 0u);
  EXPECT_EQ(crc32_of("123456789"), 0xCBF43926u);  // the check value of CRC-32/ISO-HDLC
  EXPECT_EQ(crc32_of("The quick brown fox jumps over the lazy dog"), 0x414FA339u);
}

TEST(Checksum, KnownAnswersOfCrc32c) {
  EXPECT_EQ(crc32c_of(""), 0u);
  EXPECT_EQ(crc32c_of("123456789"), 0xE3069283u);  // the check value of CRC-32/ISCSI
  // RFC 3720, appendix B.4; there the bytes are in the order of the wire.
  EXPECT_EQ(crc32c_of(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c_of(std::string(32, '\xff')), 0x62A8AB43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising += c;
  EXPECT_EQ(crc32c_of(rising), 0x46DD794Eu);
  EXPECT_EQ(crc32c_of(std::string(rising.rbegin(), rising.rend())), 0x113FDB5Cu);
}

// The definition, bit by bit: the reflected polynomial 0xEDB88320.
TEST(Checksum, EqualsTheBitwiseDefinition) {
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * i * 7 + 3);
  uint32_t expected = 0xFFFFFFFF;
  for (const std::byte b : bytes) {
    expected ^= static_cast<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) expected = expected >> 1 ^ (expected & 1 ? 0xEDB88320u : 0u);
  }
  EXPECT_EQ(crc32(bytes), ~expected);
}

TEST(Checksum, GoesOnFromPiecesEvenEmptyOnes) {
  EXPECT_EQ(crc32_of("6789", crc32_of("12345")), 0xCBF43926u);
  EXPECT_EQ(crc32({}, crc32_of("123456789")), 0xCBF43926u);
  EXPECT_EQ(crc32c_of("6789", crc32c_of("12345")), 0xE3069283u);
  EXPECT_EQ(crc32c({}, crc32c_of("123456789")), 0xE3069283u);
}

// Longer than two of the pieces in which a file is read; what was given back is read again.
TEST(Checksum, OfAFileIsThatOfItsBytes) {
  const testing::TemporaryDirectory directory;
  std::string text(2'500'001, 'x');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i / 3);
  write_file_atomic(directory / "long", text);
  write_file_atomic(directory / "empty", "");
  const MappedFile file(directory / "long");
  EXPECT_EQ(crc32(file), crc32_of(text));
  EXPECT_TRUE(file.text() == text);
  EXPECT_EQ(crc32(MappedFile(directory / "empty")), 0u);
}

TEST(Checksum, NoticesEveryFlippedBit) {
  std::vector<std::byte> bytes(32, std::byte{0x5a});
  const uint32_t whole = crc32(bytes);
  for (size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    const std::byte mask{static_cast<unsigned char>(1u << bit % 8)};
    bytes[bit / 8] ^= mask;
    EXPECT_NE(crc32(bytes), whole) << bit;
    bytes[bit / 8] ^= mask;
  }
}

}  // namespace
}  // namespace tril
