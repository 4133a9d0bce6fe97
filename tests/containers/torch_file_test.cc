#include "tril/containers/torch_file.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/containers/safetensors_bytes.h"
#include "tests/containers/zip_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/mutate.h"
#include "tests/support/temporary_directory.h"

namespace tril {
namespace {

using testing::expect_error;

std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// A tensor as torch.save writes it, in the words of its own pickle.
struct TensorWords {
  std::string type = "FloatStorage", key = "0";
  int64_t numel = 6, offset = 0;
  std::vector<int64_t> size = {2, 3}, stride = {3, 1};
  std::string dtype;  // not empty: _rebuild_tensor_v3
};

void write_words(PickleWriter& out, const TensorWords& words) {
  const auto tuple = [&](const std::vector<int64_t>& numbers) {
    out.begin_tuple();
    for (const int64_t n : numbers) out.integer(n);
    out.end_tuple();
  };
  out.global("torch._utils", words.dtype.empty() ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
  out.begin_tuple();
  out.begin_tuple();
  out.text("storage");
  out.global(words.dtype.empty() ? "torch" : "torch.storage", words.type);
  out.text(words.key);
  out.text("cuda:0");
  out.integer(words.numel);
  out.end_tuple();
  out.persistent();
  out.integer(words.offset);
  tuple(words.size);
  tuple(words.stride);
  out.flag(false);
  out.none();
  if (!words.dtype.empty()) out.global("torch", words.dtype);
  out.end_tuple();
  out.call();
}

class Torch : public ::testing::Test {
 protected:
  static std::string zipped(const std::vector<std::pair<std::string, std::string>>& entries) {
    return testing::zip_bytes(entries);
  }
  // A file of one tensor, "w", over the storage 0 of six floats.
  static std::string file_of(const TensorWords& words) {
    PickleWriter pickle;
    pickle.begin_dictionary();
    pickle.text("w");
    write_words(pickle, words);
    pickle.end_dictionary();
    return zipped(
        {{"x/data.pkl", pickle.finish()}, {"x/data/0", floats({1, 2, 3, 4, 5, 6})}, {"x/version", "3\n"}});
  }
  static TorchTensor tensor_of(const std::string& bytes) {
    const TorchFile file(bytes, "a.pt");
    return file.tensor(*file.root().find("w"), "w");
  }
  static void expect_refused(const TensorWords& words, std::string_view part) {
    const std::string bytes = file_of(words);
    expect_error(ErrorKind::kData, {"a.pt: ", "\"w\"", part}, [&] { tensor_of(bytes); });
  }
  static void expect_no_file(const std::string& bytes, std::initializer_list<std::string_view> parts) {
    expect_error(ErrorKind::kData, parts, [&] { TorchFile(bytes, "a.pt"); });
  }

  testing::TemporaryDirectory folder_;
};

TEST_F(Torch, AViewHasItsOffsetAndStrides) {
  const std::string bytes = file_of({.offset = 1, .size = {2, 2}, .stride = {1, 3}});
  const TorchTensor tensor = tensor_of(bytes);
  EXPECT_EQ(tensor.dtype, DType::kF32);
  EXPECT_EQ(tensor.shape, (Shape{2, 2}));
  EXPECT_EQ(tensor.strides, (std::vector<int64_t>{1, 3}));
  float first = 0;
  std::memcpy(&first, tensor.data, sizeof first);
  EXPECT_EQ(first, 2);
}

TEST_F(Torch, ElementTypes) {
  const std::pair<const char*, DType> types[] = {
      {"FloatStorage", DType::kF32},     {"DoubleStorage", DType::kF64}, {"HalfStorage", DType::kF16},
      {"BFloat16Storage", DType::kBF16}, {"LongStorage", DType::kI64},   {"IntStorage", DType::kI32},
      {"ShortStorage", DType::kI16},     {"CharStorage", DType::kI8},    {"ByteStorage", DType::kU8},
      {"BoolStorage", DType::kU8}};
  for (const auto& [type, dtype] : types) {
    const std::string bytes = file_of({.type = type, .numel = 3, .size = {3}, .stride = {1}});
    EXPECT_EQ(tensor_of(bytes).dtype, dtype) << type;
  }
  const std::string untyped =
      file_of({.type = "UntypedStorage", .numel = 24, .size = {12}, .stride = {1}, .dtype = "uint16"});
  EXPECT_EQ(tensor_of(untyped).dtype, DType::kU16);
  expect_refused({.type = "ComplexFloatStorage"}, "torch.ComplexFloatStorage");
  expect_refused({.type = "UntypedStorage", .numel = 24, .dtype = "float8_e5m2"}, "torch.float8_e5m2");
}

TEST_F(Torch, SizesAreChecked) {
  expect_refused({.numel = 7}, "storage of 7 elements");
  expect_refused({.numel = INT64_MAX}, "24 bytes are there");
  expect_refused({.key = "1"}, "storage 1");
  expect_refused({.key = "../0"}, "storage ../0");
  expect_refused({.offset = 1}, "do not lie within the 6 elements");
  expect_refused({.offset = -1}, "from 0");
  expect_refused({.offset = INT64_MAX}, "do not lie within");
  expect_refused({.size = {-2, 3}}, "from 0");
  expect_refused({.size = {2, 4}, .stride = {3, 1}}, "do not lie within");
  expect_refused({.stride = {INT64_MAX, INT64_MAX}}, "do not lie within");
  expect_refused({.size = {int64_t{1} << 40, int64_t{1} << 40}, .stride = {0, 0}}, "repeat them");
  expect_refused({.size = {1000000}, .stride = {0}}, "repeat them");
  expect_refused({.size = {6}, .stride = {1, 1}}, "no sizes and strides");
  expect_refused({.size = {1, 1, 1, 1, 6}, .stride = {6, 6, 6, 6, 1}}, "5 dimensions");
  EXPECT_EQ(tensor_of(file_of({.offset = 6, .size = {0, 5}, .stride = {5, 1}})).shape.elements(), 0);
}

TEST_F(Torch, OtherFilesAreNamed) {
  const std::string legacy("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.\x80\x02M\xe9\x03.", 21);
  testing::write_bytes(folder_ / "old.pt", legacy);
  EXPECT_TRUE(TorchFile::is(folder_ / "old.pt"));
  expect_error(ErrorKind::kData, {"old.pt", "before 1.6", "torch.save(torch.load("},
               [&] { TorchFile(folder_ / "old.pt"); });
  testing::write_bytes(folder_ / "text", "GGUF");
  EXPECT_FALSE(TorchFile::is(folder_ / "text"));
  expect_no_file(zipped({{"a.npy", "x"}}), {"no data.pkl"});
  expect_no_file(zipped({{"x/data.pkl", "\x80\x02}."}, {"x/constants.pkl", ""}}),
                 {"TorchScript", "state_dict()"});
  expect_no_file(zipped({{"x/data.pkl", "\x80\x02}."}, {"y/data.pkl", "\x80\x02}."}}), {"two data.pkl"});
  expect_no_file(zipped({{"x/data.pkl", "\x80\x02}."}, {"x/byteorder", "big"}}), {"byte order \"big\""});
  expect_no_file(zipped({{"x/data.pkl", "\x80\x02}"}}), {"a.pt", "cut off"});
}

TEST_F(Torch, WhatIsNoTensorIsNamed) {
  const std::string bytes =
      zipped({{"x/data.pkl", "\x80\x02}X\x01" + std::string(3, '\0') + "wcos\nsystem\n)Rs."}});
  const TorchFile file(bytes, "a.pt");
  EXPECT_FALSE(TorchFile::is_tensor(*file.root().find("w")));
  expect_error(ErrorKind::kData, {"\"w\" is no plain tensor"},
               [&] { file.tensor(*file.root().find("w"), "w"); });
}

TEST_F(Torch, WhatIsWrittenIsRead) {
  TorchWriter writer(folder_ / "b.pt");
  writer.values().begin_dictionary();
  writer.values().text("model");
  writer.values().begin_dictionary();
  writer.values().text("a");
  const size_t a =
      writer.tensor({.name = "a", .shape = {2, 3}, .read = [](int64_t first, int64_t count, float* out) {
                       for (int64_t i = 0; i < 3 * count; ++i) out[i] = static_cast<float>(3 * first + i);
                     }});
  writer.values().text("tied");
  writer.tensor_again(a);
  writer.values().end_dictionary();
  writer.values().text("steps");
  writer.values().integer(7);
  writer.values().end_dictionary();
  writer.finish();
  const TorchFile file(folder_ / "b.pt");
  file.check_checksums();
  EXPECT_EQ(file.root().find("steps")->integer, 7);
  const PickleValue& model = *file.root().find("model");
  const TorchTensor first = file.tensor(*model.find("a"), "a"),
                    second = file.tensor(*model.find("tied"), "tied");
  EXPECT_EQ(first.shape, (Shape{2, 3}));
  EXPECT_EQ(first.data, second.data);
  float last = 0;
  std::memcpy(&last, first.data + 5 * sizeof last, sizeof last);
  EXPECT_EQ(last, 5);
  EXPECT_EQ(file.storage_bytes(), 24);
}

// The pickle within a zip that is whole, so that the changes reach the tensors.
TEST_F(Torch, DamagedFiles) {
  PickleWriter pickle;
  pickle.begin_dictionary();
  for (const char* const name : {"w", "v"}) {
    pickle.text(name);
    write_words(pickle, {.offset = 1, .size = {2, 2}, .stride = {1, 3}});
  }
  pickle.end_dictionary();
  const std::string words = pickle.finish();
  int read = 0;
  constexpr int kFiles = 4000;
  for (uint64_t i = 0; i < kFiles; ++i) {
    const RandomStream random(8, "torch", i);
    const std::string changed =
        i % 2 == 0 ? testing::mutate(words, random, "KMJ(tQRc}u")
                   : testing::mutate_number(words, random.below(9, words.size()), 1 + i % 3, random);
    std::string bytes = zipped({{"x/data.pkl", changed}, {"x/data/0", floats({1, 2, 3, 4, 5, 6})}});
    read += testing::ends_well([&] {
      const TorchFile file(bytes, "a.pt");
      for (const char* const name : {"w", "v"}) {
        const PickleValue* const value = file.root().find(name);
        if (value == nullptr) continue;
        const TorchTensor tensor = file.tensor(*value, name);
        int64_t last = 0;
        for (int d = 0; d < tensor.shape.rank(); ++d)
          last += std::max<int64_t>(tensor.shape[d] - 1, 0) * tensor.strides[static_cast<size_t>(d)];
        if (tensor.shape.elements() == 0) continue;
        const int64_t size = dtype_info(tensor.dtype).block_bytes;
        EXPECT_GE(reinterpret_cast<const char*>(tensor.data), bytes.data());
        EXPECT_LE(reinterpret_cast<const char*>(tensor.data) + (last + 1) * size,
                  bytes.data() + bytes.size());
        EXPECT_LE(tensor.shape.elements() * size, 24);
      }
    });
  }
  EXPECT_GT(read, 200);
  EXPECT_LT(read, kFiles * 3 / 4);
}

}  // namespace
}  // namespace tril
