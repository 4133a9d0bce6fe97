#include "tril/containers/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <vector>

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {
namespace {

constexpr size_t kInputBytes = size_t{1} << 18;
constexpr std::string_view kGzip = "\x1F\x8B";
constexpr std::string_view kZstd = "\x28\xB5\x2F\xFD";

InputFile open(const Path& path) { return path == "-" ? InputFile::standard_input() : InputFile(path); }

}  // namespace

struct ByteStream::Impl {
  enum class Kind { kPlain, kGzip, kZstd };

  explicit Impl(const Path& path)
      : name(path == "-" ? "standard input" : printable(path.string())),
        file(open(path)),
        input(kInputBytes) {
    while (end < kZstd.size() && fill()) {
    }
    const std::string_view start = rest();
    if (start.starts_with(kGzip)) {
      kind = Kind::kGzip;
      check_data(::inflateInit2(&gzip, 15 + 16) == Z_OK, "{}: no memory to decompress gzip", name);
      gzip_open = true;
    } else if (start.starts_with(kZstd)) {
      kind = Kind::kZstd;
      zstd = ::ZSTD_createDStream();
      check_data(zstd != nullptr, "{}: no memory to decompress zstd", name);
    }
  }
  ~Impl() {
    if (gzip_open) ::inflateEnd(&gzip);
    ::ZSTD_freeDStream(zstd);
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  std::string_view rest() const { return {input.data() + at, end - at}; }

  // Reads more of the file behind what is left; false at its end.
  bool fill() {
    if (at == end) at = end = 0;
    if (end == input.size()) return true;
    const size_t n = file.read(std::span(input).subspan(end));
    end += n;
    position += static_cast<int64_t>(n);
    return n > 0;
  }

  size_t read_plain(std::span<char> buffer) {
    const size_t n = std::min(buffer.size(), end - at);
    std::copy_n(input.data() + at, n, buffer.data());
    at += n;
    if (n > 0) return n;
    const size_t got = file.read(buffer);
    position += static_cast<int64_t>(got);
    return got;
  }

  size_t read_gzip(std::span<char> buffer) {
    while (true) {
      if (at == end && !fill()) {
        check_data(between, "{}: cut: the gzip data end in the middle, after {} bytes of the file", name,
                   position);
        return 0;
      }
      if (between && input[at] == 0) {
        skip_padding();
        return 0;
      }
      if (between) {
        check_data(::inflateReset(&gzip) == Z_OK, "{}: gzip cannot go on", name);
        between = false;
      }
      gzip.next_in = reinterpret_cast<unsigned char*>(input.data() + at);
      gzip.avail_in = static_cast<unsigned>(end - at);
      gzip.next_out = reinterpret_cast<unsigned char*>(buffer.data());
      gzip.avail_out = static_cast<unsigned>(std::min(buffer.size(), size_t{1} << 30));
      const size_t before = gzip.avail_out;
      const int code = ::inflate(&gzip, Z_NO_FLUSH);
      at = end - gzip.avail_in;
      check_data(code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR,
                 "{}: damaged gzip data before byte {} of the file ({})", name, consumed(),
                 gzip.msg != nullptr ? gzip.msg : "unknown fault");
      between = code == Z_STREAM_END;
      if (before > gzip.avail_out) return before - gzip.avail_out;
    }
  }

  // Zeros behind the last member, as of blocks of a tape, are no data, which gzip(1) does too; zeros alone.
  void skip_padding() {
    do {
      while (at < end && input[at] == 0) ++at;
      check_data(at == end, "{}: damaged: byte {} of the file stands behind the zeros that end the gzip data",
                 name, consumed());
    } while (fill());
  }

  size_t read_zstd(std::span<char> buffer) {
    ::ZSTD_outBuffer out = {buffer.data(), buffer.size(), 0};
    while (true) {
      const bool more = at < end || fill();
      ::ZSTD_inBuffer in = {input.data() + at, end - at, 0};
      const size_t code = ::ZSTD_decompressStream(zstd, &out, &in);
      at += in.pos;
      check_data(!::ZSTD_isError(code), "{}: damaged zstd data before byte {} of the file ({})", name,
                 consumed(), ::ZSTD_getErrorName(code));
      if (in.pos > 0 || out.pos > 0) between = code == 0;
      if (out.pos > 0) return out.pos;
      check_data(more || between, "{}: cut: the zstd data end in the middle, after {} bytes of the file",
                 name, position);
      if (!more) return 0;
    }
  }

  size_t read_some(std::span<char> buffer) {
    switch (kind) {
      case Kind::kGzip:
        return read_gzip(buffer);
      case Kind::kZstd:
        return read_zstd(buffer);
      case Kind::kPlain:
        break;
    }
    return read_plain(buffer);
  }

  int64_t consumed() const { return position - static_cast<int64_t>(end - at); }

  std::string name;
  InputFile file;
  std::vector<char> input;
  size_t at = 0, end = 0;  // what of `input` is not yet used
  int64_t position = 0;
  Kind kind = Kind::kPlain;
  bool between = false;  // a member or frame is complete, the next has not begun
  z_stream gzip = {};
  bool gzip_open = false;
  ::ZSTD_DStream* zstd = nullptr;
};

ByteStream::ByteStream(const Path& path) : impl_(std::make_unique<Impl>(path)) {}
ByteStream::~ByteStream() = default;
ByteStream::ByteStream(ByteStream&&) noexcept = default;
ByteStream& ByteStream::operator=(ByteStream&&) noexcept = default;

size_t ByteStream::read(std::span<char> buffer) {
  size_t filled = 0;
  while (filled < buffer.size()) {
    const size_t n = impl_->read_some(buffer.subspan(filled));
    if (n == 0) break;
    filled += n;
  }
  return filled;
}

void ByteStream::skip(int64_t bytes) {
  Impl& impl = *impl_;
  if (impl.kind == Impl::Kind::kPlain && impl.file.size() >= 0) {
    impl.file.seek(bytes);
    impl.at = impl.end = 0;
    impl.position = bytes;
    return;
  }
  std::vector<char> ignored(size_t{1} << 18);
  while (bytes > 0) {
    const auto want = static_cast<size_t>(std::min<int64_t>(bytes, std::ssize(ignored)));
    check_data(read(std::span(ignored).first(want)) == want, "{}: is shorter than it was", impl.name);
    bytes -= static_cast<int64_t>(want);
  }
}

int64_t ByteStream::file_size() const { return impl_->file.size(); }
int64_t ByteStream::file_position() const { return impl_->consumed(); }

}  // namespace tril
