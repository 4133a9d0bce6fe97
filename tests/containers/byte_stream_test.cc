#include "tril/containers/byte_stream.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_directory.h"

namespace tril {
namespace {

using testing::expect_error;

std::string gzipped(const std::string& text) {
  z_stream z = {};
  EXPECT_EQ(::deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(::deflateBound(&z, text.size()) + 32, '\0');
  z.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<unsigned>(text.size());
  z.next_out = reinterpret_cast<unsigned char*>(out.data());
  z.avail_out = static_cast<unsigned>(out.size());
  EXPECT_EQ(::deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  ::deflateEnd(&z);
  return out;
}

std::string zstd_packed(const std::string& text) {
  std::string out(::ZSTD_compressBound(text.size()), '\0');
  out.resize(::ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 3));
  return out;
}

std::string sample(size_t size) {
  std::string text;
  for (int i = 0; text.size() < size; ++i) text += "line " + std::to_string(i * 7919 % 1000) + "\n";
  return text.substr(0, size);
}

class ByteStreams : public ::testing::Test {
 protected:
  Path write(const std::string& bytes) {
    std::ofstream(dir_ / "f", std::ios::binary) << bytes;
    return dir_ / "f";
  }
  // In pieces of `piece` bytes.
  std::string read(const Path& path, size_t piece = 1 << 16, int64_t skip = 0) {
    ByteStream stream(path);
    if (skip > 0) stream.skip(skip);
    std::string out, buffer(piece, '\0');
    while (const size_t n = stream.read(buffer)) out.append(buffer, 0, n);
    return out;
  }
  testing::TemporaryDirectory dir_;
};

TEST_F(ByteStreams, PlainAndCompressedAreTheSameBytes) {
  for (const size_t size : {0, 1, 3, 1000, 300'000, 1 << 20}) {
    const std::string text = sample(size), half = text.substr(0, size / 2), rest = text.substr(size / 2);
    for (const std::string& bytes : {text, gzipped(text), zstd_packed(text), gzipped(half) + gzipped(rest),
                                     zstd_packed(half) + zstd_packed(rest)}) {
      const Path path = write(bytes);
      EXPECT_TRUE(read(path) == text) << size;
      EXPECT_TRUE(read(path, 777) == text) << size;
      EXPECT_TRUE(read(path, 1 << 16, static_cast<int64_t>(size / 3)) == text.substr(size / 3)) << size;
    }
  }
}

TEST_F(ByteStreams, ZerosBehindTheLastGzipMember) {
  const std::string text = sample(50'000), packed = gzipped(text);
  for (const size_t zeros : {1, 511, 600'000}) {
    const Path path = write(packed + std::string(zeros, '\0'));
    EXPECT_TRUE(read(path) == text) << zeros;
    EXPECT_TRUE(read(path, 777) == text) << zeros;
    for (const std::string& behind : {std::string("x"), packed})
      expect_error(ErrorKind::kData, {path.string(), "damaged"},
                   [&] { read(write(packed + std::string(zeros, '\0') + behind)); });
  }
  expect_error(ErrorKind::kData, {"damaged"}, [&] { read(write(packed + "xyz")); });
}

TEST_F(ByteStreams, WhatIsCutOrDamagedIsSaid) {
  const std::string text = sample(50'000);
  for (const std::string& whole : {gzipped(text), zstd_packed(text)}) {
    for (const size_t size : {whole.size() - 1, whole.size() / 2, size_t{5}}) {
      const Path path = write(whole.substr(0, size));
      expect_error(ErrorKind::kData, {path.string(), "cut"}, [&] { read(path); });
    }
    std::string damaged = whole;
    for (size_t i = 30; i < 60; ++i) damaged[i] = static_cast<char>(~damaged[i]);
    const Path path = write(damaged);
    expect_error(ErrorKind::kData, {path.string(), "damaged"}, [&] { read(path); });
    int refused = 0;
    for (uint64_t i = 0; i < 300; ++i) {
      const Path other = write(testing::mutate(whole, RandomStream(1, "streams", i)));
      refused += !testing::ends_well([&] { read(other); });
    }
    EXPECT_GT(refused, 100);
  }
  expect_error(ErrorKind::kData, {"missing"}, [&] { ByteStream(dir_ / "missing"); });
  expect_error(ErrorKind::kData, {"directory"}, [&] { ByteStream{dir_.path()}; });
}

}  // namespace
}  // namespace tril
