// Text of a file as UTF-8, whatever the file is stored as, with a window of it in memory.
#pragma once

#include <string>
#include <string_view>

#include "tril/containers/byte_stream.h"
#include "tril/data/sources.h"

namespace tril {

// A byte order mark is dropped. What is not valid in the encoding comes out as bytes that are no valid UTF-8,
// so that one check finds it.
class TextStream {
 public:
  // Goes on at byte `offset` of the UTF-8 text, which counts from behind the byte order mark.
  TextStream(const Path& path, TextEncoding encoding, int64_t offset);

  // What lies ahead, at least `size` bytes of it unless the text ends there.
  std::string_view ahead(size_t size);
  void consume(size_t size);                  // of what lies ahead
  int64_t offset() const { return offset_; }  // of what lies ahead
  bool is_utf16() const;                      // decoded here
  // Of UTF-16: the byte of the file where the character behind the next `size` bytes begins.
  int64_t utf16_offset(size_t size) const;
  bool has_mark_of_utf16() const { return utf16_mark_; }  // though another encoding was asked for
  const ByteStream& bytes() const { return bytes_; }

 private:
  void fill();
  void decode(std::string_view raw, bool last);
  void decode_utf16(std::string_view raw, bool last);

  ByteStream bytes_;
  TextEncoding encoding_;
  std::string window_, raw_, left_;  // left_: half a character of the encoding
  size_t at_ = 0;
  int64_t offset_ = 0;
  int64_t consumed_units_ = 0;  // of UTF-16, the mark included
  bool started_ = false, ended_ = false, utf16_mark_ = false;
};

}  // namespace tril
