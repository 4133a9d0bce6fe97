#include "tril/data/text_stream.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// Of Windows-1252, bytes 0x80 to 0x9F (the WHATWG Encoding Standard, index windows-1252).
constexpr char32_t kWindows1252[32] = {0x20AC, 0x81,   0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                       0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8D,   0x017D, 0x8F,
                                       0x90,   0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                       0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D,   0x017E, 0x0178};

bool is_utf16_encoding(TextEncoding encoding) {
  return encoding == TextEncoding::kUtf16 || encoding == TextEncoding::kUtf16Le ||
         encoding == TextEncoding::kUtf16Be;
}

// Of valid UTF-8, in which a byte 0xFF stands for a unit as well.
int64_t utf16_units(std::string_view text) {
  int64_t units = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    units += (byte & 0xC0) != 0x80;
    units += byte >= 0xF0 && byte != 0xFF;
  }
  return units;
}

}  // namespace

TextStream::TextStream(const Path& path, TextEncoding encoding, int64_t offset)
    : bytes_(path), encoding_(encoding) {
  if (offset == 0) return;
  // Where no byte is changed on the way, the file itself knows the place, but for a mark in front.
  if (encoding == TextEncoding::kUtf8) {
    char start[3];
    const size_t n = bytes_.read(start);
    const bool mark = std::string_view(start, n) == kByteOrderMark;
    bytes_ = ByteStream(path);
    bytes_.skip(offset + (mark ? 3 : 0));
    offset_ = offset;
    started_ = true;
    return;
  }
  while (offset_ < offset) {
    const auto n = std::min(ahead(1).size(), static_cast<size_t>(offset - offset_));
    check_data(n > 0, "{}: is shorter than it was", printable(path.string()));
    consume(n);
  }
}

std::string_view TextStream::ahead(size_t size) {
  while (window_.size() - at_ < size && !ended_) fill();
  return std::string_view(window_).substr(at_);
}

bool TextStream::is_utf16() const { return is_utf16_encoding(encoding_); }

int64_t TextStream::utf16_offset(size_t size) const {
  return 2 * (consumed_units_ + utf16_units(std::string_view(window_).substr(at_, size)));
}

void TextStream::consume(size_t size) {
  if (is_utf16()) consumed_units_ = utf16_offset(size) / 2;
  at_ += size;
  offset_ += static_cast<int64_t>(size);
}

void TextStream::fill() {
  // What was consumed goes once it is the larger part, so that each byte moves a constant number of times.
  if (at_ >= window_.size() - at_) {
    window_.erase(0, at_);
    at_ = 0;
  }
  if (encoding_ == TextEncoding::kUtf8 && started_) {
    const size_t before = window_.size();
    window_.resize(before + kReadBytes);
    const size_t n = bytes_.read(std::span(window_).subspan(before));
    window_.resize(before + n);
    ended_ = n < kReadBytes;
    return;
  }
  raw_.resize(kReadBytes);
  const size_t n = bytes_.read(raw_);
  ended_ = n < kReadBytes;
  std::string_view raw = std::string_view(raw_).substr(0, n);
  if (!started_) {
    started_ = true;
    const bool little = raw.starts_with("\xFF\xFE"), big = raw.starts_with("\xFE\xFF");
    if (is_utf16()) {
      if (encoding_ == TextEncoding::kUtf16)
        encoding_ = big ? TextEncoding::kUtf16Be : TextEncoding::kUtf16Le;
      if (little || big) raw.remove_prefix(2);
      consumed_units_ = little || big ? 1 : 0;
    } else if (encoding_ == TextEncoding::kUtf8) {
      utf16_mark_ = little || big;
      if (raw.starts_with(kByteOrderMark)) raw.remove_prefix(kByteOrderMark.size());
    }
  }
  decode(raw, ended_);
}

void TextStream::decode(std::string_view raw, bool last) {
  if (encoding_ == TextEncoding::kUtf8) {
    window_ += raw;
  } else if (is_utf16()) {
    decode_utf16(raw, last);
  } else {
    for (const char byte : raw) {
      const auto code = static_cast<unsigned char>(byte);
      const bool special = encoding_ == TextEncoding::kWindows1252 && code >= 0x80 && code < 0xA0;
      utf8_append(window_, special ? kWindows1252[code - 0x80] : char32_t{code});
    }
  }
}

// RFC 2781. Half of a pair, and half a unit at the end, become the byte 0xFF, which no UTF-8 has.
void TextStream::decode_utf16(std::string_view raw, bool last) {
  left_ += raw;
  const bool big = encoding_ == TextEncoding::kUtf16Be;
  const auto unit = [&](size_t at) {
    const auto first = static_cast<unsigned char>(left_[at]),
               second = static_cast<unsigned char>(left_[at + 1]);
    return static_cast<char32_t>(big ? first << 8 | second : second << 8 | first);
  };
  size_t at = 0;
  while (at + 2 <= left_.size()) {
    const char32_t high = unit(at);
    if (high < 0xD800 || high > 0xDFFF) {
      utf8_append(window_, high);
      at += 2;
      continue;
    }
    if (at + 4 > left_.size() && !last) break;
    const char32_t low = at + 4 <= left_.size() ? unit(at + 2) : 0;
    if (high < 0xDC00 && low >= 0xDC00 && low <= 0xDFFF) {
      utf8_append(window_, 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
      at += 4;
    } else {
      window_.push_back('\xFF');
      at += 2;
    }
  }
  left_.erase(0, at);
  if (last && !left_.empty()) window_.push_back('\xFF');
  if (last) left_.clear();
}

}  // namespace tril
