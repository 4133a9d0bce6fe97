#include <bit>

#include "tril/base/bytes.h"
#include "tril/base/error.h"
#include "tril/containers/pickle.h"

namespace tril {

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value < 256) {
    bytes_ += 'K';
    append_number(bytes_, static_cast<uint8_t>(value));
  } else if (value == static_cast<int32_t>(value)) {
    bytes_ += 'J';
    append_number(bytes_, static_cast<int32_t>(value));
  } else {
    bytes_ += "\x8a\x08";
    append_number(bytes_, value);
  }
}

void PickleWriter::number(double value) {
  bytes_ += 'G';
  append_number(bytes_, __builtin_bswap64(std::bit_cast<uint64_t>(value)));
}

void PickleWriter::text(std::string_view utf8) {
  check_use(utf8.size() <= UINT32_MAX, "a text of {} bytes is too long for a pickle", utf8.size());
  bytes_ += 'X';
  append_number(bytes_, static_cast<uint32_t>(utf8.size()));
  bytes_ += utf8;
}

void PickleWriter::global(std::string_view module, std::string_view name) {
  bytes_ += fmt::format("c{}\n{}\n", module, name);
}

}  // namespace tril
