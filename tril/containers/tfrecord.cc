#include "tril/containers/tfrecord.h"

#include <span>

#include "tril/base/bytes.h"
#include "tril/containers/checksum.h"

namespace tril {
namespace {

uint32_t masked_checksum(std::string_view text) {
  return mask_crc32c(crc32c(std::as_bytes(std::span(text))));
}

}  // namespace

void append_tfrecord(std::string& out, std::string_view data) {
  std::string length;
  append_number(length, static_cast<uint64_t>(data.size()));
  out += length;
  append_number(out, masked_checksum(length));
  out += data;
  append_number(out, masked_checksum(data));
}

}  // namespace tril
