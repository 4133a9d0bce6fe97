// TFRecord: TensorFlow's files of records, each framed by its length and checksums
// (tensorflow.org/tutorials/load_data/tfrecord, "TFRecords format details").
//
//   length    uint64, little-endian
//   checksum  uint32, little-endian: masked CRC-32C of those 8 bytes
//   data      `length` bytes
//   checksum  uint32, little-endian: masked CRC-32C of the data
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tril {

// Turned right by 15 bits, plus a constant: a CRC of data that holds CRCs itself would be weak.
constexpr uint32_t mask_crc32c(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

void append_tfrecord(std::string& out, std::string_view data);

}  // namespace tril
