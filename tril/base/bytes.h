// Numbers in files: at any address, and in the byte order of the files, which the machine must have.
#pragma once

#include <bit>
#include <cstring>
#include <string>

namespace tril {

static_assert(std::endian::native == std::endian::little, "the files that tril reads are little-endian");

// The number that begins at a byte of a span or text. The caller has found that it lies within.
template <class T, class Bytes>
T number_at(const Bytes& bytes, size_t at) {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

template <class T>
void append_number(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace tril
