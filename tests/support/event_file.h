// Reads event files of TensorBoard back, in the plainest way: frames, checksums, and of each event its
// scalars.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/containers/checksum.h"
#include "tril/containers/tfrecord.h"

namespace tril::testing {

struct ReadEvent {
  double wall_time = 0;
  int64_t step = 0;
  std::string file_version;
  bool restart = false;
  std::map<std::string, float> scalars;
};

inline uint64_t take_little_endian(std::string_view& bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count && i < bytes.size(); ++i)
    value |= uint64_t{static_cast<unsigned char>(bytes[i])} << 8 * i;
  bytes.remove_prefix(std::min(count, bytes.size()));
  return value;
}

inline uint64_t take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (int shift = 0; !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) break;
  }
  return value;
}

// The fields of a message by number: varints and fixed numbers as integers, the rest as bytes.
struct ReadField {
  int number = 0;
  uint64_t integer = 0;
  std::string_view bytes;
};
inline std::vector<ReadField> read_message(std::string_view bytes) {
  std::vector<ReadField> fields;
  while (!bytes.empty()) {
    const uint64_t key = take_varint(bytes);
    ReadField field{.number = static_cast<int>(key >> 3)};
    if ((key & 7) == 0) field.integer = take_varint(bytes);
    if ((key & 7) == 1) field.integer = take_little_endian(bytes, 8);
    if ((key & 7) == 5) field.integer = take_little_endian(bytes, 4);
    if ((key & 7) == 2) {
      const size_t size = std::min<size_t>(take_varint(bytes), bytes.size());
      field.bytes = bytes.substr(0, size);
      bytes.remove_prefix(size);
    }
    fields.push_back(field);
  }
  return fields;
}

inline ReadEvent read_event(std::string_view bytes) {
  ReadEvent event;
  for (const ReadField& field : read_message(bytes)) {
    if (field.number == 1) event.wall_time = std::bit_cast<double>(field.integer);
    if (field.number == 2) event.step = static_cast<int64_t>(field.integer);
    if (field.number == 3) event.file_version = field.bytes;
    if (field.number == 7) event.restart = field.bytes == "\x08\x01";
    if (field.number != 5) continue;
    for (const ReadField& value : read_message(field.bytes)) {
      std::string tag;
      float scalar = 0;
      for (const ReadField& part : read_message(value.bytes)) {
        if (part.number == 1) tag = part.bytes;
        if (part.number == 2) scalar = std::bit_cast<float>(static_cast<uint32_t>(part.integer));
      }
      event.scalars[tag] = scalar;
    }
  }
  return event;
}

inline std::vector<ReadEvent> read_events(std::string_view file) {
  std::vector<ReadEvent> events;
  const auto checksum = [](std::string_view text) {
    return mask_crc32c(crc32c(std::as_bytes(std::span(text))));
  };
  while (!file.empty()) {
    const std::string_view frame = file.substr(0, 8);
    const uint64_t size = take_little_endian(file, 8);
    EXPECT_EQ(take_little_endian(file, 4), checksum(frame));
    if (file.size() < size + 4) {
      ADD_FAILURE() << "the last record is cut short";
      return events;
    }
    const std::string_view data = file.substr(0, size);
    file.remove_prefix(size);
    EXPECT_EQ(take_little_endian(file, 4), checksum(data));
    events.push_back(read_event(data));
  }
  return events;
}

}  // namespace tril::testing
