#include "tril/containers/integer_array.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstring>
#include <fstream>

#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_data.h"

namespace tril {
namespace {

using testing::expect_error;

void put(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> 8 * i & 0xFF);
}

std::string message(int type, std::string data) {
  data.resize((data.size() + 7) / 8 * 8);
  std::string out;
  put(out, static_cast<uint64_t>(type), 2);
  put(out, data.size(), 2);
  put(out, 0, 4);
  return out + data;
}

std::string deflated(const std::string& bytes) {
  std::string out(::compressBound(bytes.size()), '\0');
  auto size = static_cast<::uLongf>(out.size());
  ::compress(reinterpret_cast<unsigned char*>(out.data()), &size,
             reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  out.resize(size);
  return out;
}

// A file with the data set "tokens" of the numbers 0, 3, 6, ...: 4 bytes each, in chunks of `chunk` numbers
// or (0) in one piece.
std::string hdf5_file(int64_t count, int64_t chunk, bool packed) {
  constexpr uint64_t kRoot = 96, kTree = 136, kHeap = 176, kNames = 208, kSymbols = 232, kObject = 400,
                     kData = 700;
  std::string file(kData, '\0');
  const auto set = [&](uint64_t at, const std::string& bytes) { file.replace(at, bytes.size(), bytes); };
  const auto numbers = [](std::initializer_list<std::pair<uint64_t, int>> list) {
    std::string out;
    for (const auto& [value, bytes] : list) put(out, value, bytes);
    return out;
  };
  set(0,
      std::string("\x89HDF\r\n\x1A\n\0\0\0\0\0\x08\x08\0", 16) + numbers({{4, 2}, {16, 2}, {0, 4}, {0, 8}}));
  set(64, numbers({{kRoot, 8}}));
  set(kRoot, numbers({{1, 1}, {0, 1}, {1, 2}, {1, 4}, {24, 4}, {0, 4}}) +
                 message(0x11, numbers({{kTree, 8}, {kHeap, 8}})));
  set(kTree,
      "TREE" + numbers({{0, 1}, {0, 1}, {1, 2}, {UINT64_MAX, 8}, {UINT64_MAX, 8}, {0, 8}, {kSymbols, 8}}));
  set(kHeap, "HEAP" + numbers({{0, 4}, {24, 8}, {UINT64_MAX, 8}, {kNames, 8}}));
  set(kNames + 8, "tokens");
  set(kSymbols, "SNOD" + numbers({{1, 2}, {1, 2}, {8, 8}, {kObject, 8}}));
  std::string data;
  for (int64_t i = 0; i < count; ++i) put(data, static_cast<uint64_t>(3 * i), 4);
  std::string layout, filters, tail;
  if (chunk == 0) {
    layout = numbers({{3, 1}, {1, 1}, {kData, 8}, {data.size(), 8}});
    tail = data;
  } else {
    const uint64_t chunks = static_cast<uint64_t>((count + chunk - 1) / chunk);
    layout = numbers({{3, 1}, {2, 1}, {2, 1}, {kData, 8}, {static_cast<uint64_t>(chunk), 4}, {4, 4}});
    if (packed)
      filters =
          message(0x0B, numbers({{1, 1}, {1, 1}, {0, 6}, {1, 2}, {0, 2}, {0, 2}, {1, 2}, {6, 4}, {0, 4}}));
    tail = "TREE" + numbers({{1, 1}, {0, 1}, {chunks, 2}, {UINT64_MAX, 8}, {UINT64_MAX, 8}});
    std::string stored;
    const uint64_t begin = kData + 24 + 32 * chunks + 24;
    data.resize(static_cast<size_t>(4 * chunk) * chunks);
    for (uint64_t i = 0; i < chunks; ++i) {
      std::string piece = data.substr(i * static_cast<size_t>(4 * chunk), static_cast<size_t>(4 * chunk));
      if (packed) piece = deflated(piece);
      tail += numbers({{piece.size(), 4},
                       {0, 4},
                       {i * static_cast<uint64_t>(chunk), 8},
                       {0, 8},
                       {begin + stored.size(), 8}});
      stored += piece;
    }
    tail += std::string(24, '\0') + stored;
  }
  const std::string messages =
      message(0x01, numbers({{1, 1}, {1, 1}, {0, 6}, {static_cast<uint64_t>(count), 8}})) +
      message(0x03, numbers({{0x10, 1}, {8, 1}, {0, 2}, {4, 4}, {0, 2}, {32, 2}})) + message(0x08, layout) +
      filters;
  set(kObject,
      numbers({{1, 1}, {0, 1}, {packed ? 4u : 3u, 2}, {1, 4}, {messages.size(), 4}, {0, 4}}) + messages);
  return file + tail;
}

std::string npy_file(const std::string& type, const std::string& shape, const std::string& data,
                     const std::string& order = "False") {
  std::string header =
      "{'descr': '" + type + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
  std::string out("\x93NUMPY\x01\x00", 8);
  put(out, header.size(), 2);
  return out + header + data;
}

class IntegerArrays : public ::testing::Test {
 protected:
  Path write(const std::string& bytes) {
    std::ofstream(dir_ / "f", std::ios::binary) << bytes;
    return dir_ / "f";
  }
  static std::vector<int64_t> all_of(IntegerArray& array) {
    std::vector<int64_t> out(static_cast<size_t>(array.size()));
    array.read(0, out);
    return out;
  }
  testing::TemporaryDirectory dir_;
};

TEST_F(IntegerArrays, NumPyOfEveryWidth) {
  const std::string data("\x01\xFF\x02\x00\x03\x80\xFE\xFF", 8);
  using List = std::vector<int64_t>;
  EXPECT_EQ(all_of(*open_npy(write(npy_file("<u2", "(4,)", data)))), (List{0xFF01, 2, 0x8003, 0xFFFE}));
  EXPECT_EQ(all_of(*open_npy(write(npy_file("<i2", "(2, 2)", data)))), (List{-255, 2, -32765, -2}));
  EXPECT_EQ(all_of(*open_npy(write(npy_file("<i4", "(2,)", data)))), (List{0x2FF01, -98301}));
  EXPECT_EQ(all_of(*open_npy(write(npy_file("|u1", "(3,)", data)))), (List{1, 255, 2}));
  EXPECT_EQ(all_of(*open_npy(write(npy_file("<i8", "(1,)", data)))),
            (List{static_cast<int64_t>(0xFFFE80030002FF01)}));
  EXPECT_EQ(open_npy(write(npy_file("<i8", "(0,)", "")))->size(), 0);
  // What is written here is read here.
  const auto written = open_npy(write(format_npy_header({4, true}, 2) + data));
  EXPECT_EQ(all_of(*written), (List{0x2FF01, -98301}));
  EXPECT_EQ(format_npy_header({2, false}, 123456789).size() % 64, 0u);
}

TEST_F(IntegerArrays, OtherNumPyFilesAreRefused) {
  const auto refuse = [&](const std::string& bytes, std::string_view part) {
    const Path path = write(bytes);
    expect_error(ErrorKind::kData, {path.string(), part}, [&] { open_npy(path); });
  };
  refuse("text", "not a .npy");
  refuse(npy_file("<f4", "(1,)", "1234"), "little-endian integers");
  refuse(npy_file(">i4", "(1,)", "1234"), "little-endian integers");
  refuse(npy_file("<i4", "(2,)", "1234"), "cut");
  refuse(npy_file("<i4", "(1000000000000000,)", "1234"), "cut");
  refuse(npy_file("<i4", "(9999999999, 9999999999)", "1234"), "impossible");
  refuse(npy_file("<i4", "(-1,)", "1234"), "impossible");
  refuse(npy_file("<i4", "(1, 1)", "1234", "True"), "fortran_order");
  // Cut within its header, wherever: the length that the file names ends there.
  const std::string whole = npy_file("<u1", "(4,)", "1234");
  for (size_t length = 0; length + 2 < whole.size() - 10 - 4; ++length) {
    std::string cut = whole;
    cut[8] = static_cast<char>(length);
    refuse(cut, "header is cut");
  }
  refuse(npy_file("<u1", "(4", "1234"), "no shape");
  refuse(npy_file("<u1", "4,)", "1234"), "no shape");
}

TEST_F(IntegerArrays, Hdf5InOnePieceAndInChunks) {
  for (const int64_t count : {0, 1, 99, 100, 101, 250}) {
    for (const int64_t chunk : {0, 100}) {
      for (const bool packed : {false, true}) {
        if (packed && chunk == 0) continue;
        const auto array = open_hdf5(write(hdf5_file(count, chunk, packed)), "tokens");
        ASSERT_EQ(array->size(), count);
        const std::vector<int64_t> values = all_of(*array);
        for (int64_t i = 0; i < count; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], 3 * i);
      }
    }
  }
  std::string unwritten = hdf5_file(10, 100, false);
  std::string layout("\x03\x02\x02", 3);
  put(layout, 700, 8);  // where the tree of the chunks is
  const size_t at = unwritten.find(layout);
  ASSERT_NE(at, unwritten.npos);
  unwritten.replace(at + 3, 8, 8, '\xFF');
  expect_error(ErrorKind::kData, {"never written"}, [&] { open_hdf5(write(unwritten), "tokens"); });
  std::string filtered = hdf5_file(10, 100, true);
  const size_t filters = filtered.find(std::string("\x01\x01\0\0\0\0\0\0\x01\0\0\0\0\0\x01", 15));
  ASSERT_NE(filters, filtered.npos);
  filtered[filters + 1] = 33;
  expect_error(ErrorKind::kData, {"33 filters"}, [&] { open_hdf5(write(filtered), "tokens"); });
  const Path path = write(hdf5_file(10, 0, false));
  expect_error(ErrorKind::kData, {"no data set 'other'", "there is tokens"},
               [&] { open_hdf5(path, "other"); });
}

TEST_F(IntegerArrays, Hdf5AsAnotherProgramWroteIt) {
  const auto path = testing::test_data("corpus/seed_tokens.h5");
  if (!path) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  const auto array = open_hdf5(*path, "tokens");
  ASSERT_EQ(array->size(), 20'000);
  int64_t sum = 0, largest = 0;
  for (const int64_t value : all_of(*array)) {
    EXPECT_GE(value, 0);
    sum += value;
    largest = std::max(largest, value);
  }
  EXPECT_GT(sum, 0);
  EXPECT_LT(largest, 50257);
}

// Also numbers of any size in any place: nothing is read outside the file, nothing large allocated for it.
TEST_F(IntegerArrays, DamagedFiles) {
  const std::string files[] = {hdf5_file(250, 100, false), hdf5_file(250, 100, true), hdf5_file(50, 0, false),
                               npy_file("<i4", "(20, 3)", std::string(240, 'x'))};
  for (size_t f = 0; f < 4; ++f) {
    int refused = 0, read = 0;
    for (uint64_t i = 0; i < 1500; ++i) {
      const Path path = write(testing::mutate(files[f], RandomStream(f, "arrays", i)));
      const bool well = testing::ends_well([&] {
        const auto array = f < 3 ? open_hdf5(path, "tokens") : open_npy(path);
        std::vector<int64_t> some(static_cast<size_t>(std::min<int64_t>(array->size(), 1000)));
        array->read(array->size() - std::ssize(some), some);
      });
      (well ? read : refused) += 1;
    }
    EXPECT_GT(refused, 100) << f;
    EXPECT_GT(read, 50) << f;
    for (size_t size = 0; size < files[f].size(); size += 7) {
      const Path path = write(files[f].substr(0, size));
      EXPECT_FALSE(testing::ends_well([&] {
        const auto array = f < 3 ? open_hdf5(path, "tokens") : open_npy(path);
        all_of(*array);
      })) << size;
    }
  }
}

}  // namespace
}  // namespace tril
