#include "tril/containers/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/containers/safetensors_bytes.h"
#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/test_data.h"
#include "tril/tensor/quantized.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::safetensors_bytes;
using testing::TemporaryDirectory;
using testing::write_bytes;

// More rows than are written in one piece.
TEST(Safetensors, WritesWhatIsMadeAsItIsWritten) {
  const TemporaryDirectory dir;
  const auto value = [](int64_t i) { return static_cast<float>(i % 4099) / 64; };
  const auto rows = [&](int64_t columns) {
    return [=](int64_t first, int64_t count, float* out) {
      for (int64_t i = 0; i < count * columns; ++i) out[i] = value(first * columns + i);
    };
  };
  std::vector<StreamedArray> arrays = {{"a", DType::kF32, {3000, 150}, rows(150)},
                                       {"b", DType::kF16, {4}, rows(1)}};
  write_streamed_safetensors(dir / "f", arrays, {}, /*checksum=*/true);
  const SafetensorsFile file(dir / "f");
  file.check_checksum();
  const ConstView view = file.f32("a", {3000, 150});
  for (int64_t i = 0; i < 450000; ++i) ASSERT_EQ(view.f32()[i], value(i)) << i;
  const auto* const halves = reinterpret_cast<const uint16_t*>(file.get("b").bytes.data());
  for (int64_t i = 0; i < 4; ++i) EXPECT_EQ(float_of_f16(halves[i]), value(i));
  arrays[1].read = [](int64_t, int64_t count, float* out) { std::fill_n(out, count, 1e6f); };
  expect_error(ErrorKind::kNumerics, {"tensor b", "f16", "1000000"},
               [&] { write_streamed_safetensors(dir / "g", arrays); });
  EXPECT_FALSE(std::filesystem::exists(dir / "g"));
  arrays[1].dtype = DType::kQ8_0;
  expect_error(ErrorKind::kUse, {"\"b\"", "q8_0"}, [&] { write_streamed_safetensors(dir / "g", arrays); });
}

TEST(Safetensors, RoundTrip) {
  const TemporaryDirectory dir;
  Tensor a({2, 3}), scalar(Shape{}), empty({0, 4}), b({3}, DType::kI64), c({5}, DType::kU8);
  for (int i = 0; i < 6; ++i) a.f32()[i] = 1.5f * static_cast<float>(i);
  scalar.f32()[0] = -7;
  const int64_t numbers[] = {1, -2, int64_t{1} << 40};
  std::memcpy(b.view().data, numbers, sizeof(numbers));
  std::memcpy(c.view().data, "hello", 5);
  write_safetensors(dir / "f",
                    {{"a \"quoted\"\n", a}, {"c", c}, {"scalar", scalar}, {"empty", empty}, {"b", b}},
                    {{"note", "x"}});
  const SafetensorsFile file(dir / "f");
  std::vector<std::string> names;
  for (const NamedArray& array : file.arrays()) names.push_back(array.name);
  EXPECT_EQ(names, (std::vector<std::string>{"b", "a \"quoted\"\n", "empty", "scalar", "c"}));
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"note", "x"}}));
  const ConstView view = file.f32("a \"quoted\"\n", {2, 3});
  EXPECT_EQ(std::memcmp(view.data, a.f32(), 24), 0);
  EXPECT_EQ(file.f32("scalar", {}).f32()[0], -7);
  EXPECT_EQ(file.f32("empty", {0, 4}).elements(), 0);
  EXPECT_EQ(file.get("b").dtype, "I64");
  EXPECT_EQ(std::memcmp(file.get("b").bytes.data(), numbers, sizeof(numbers)), 0);
  EXPECT_EQ(file.get("c").bytes.size(), 5u);
  EXPECT_EQ(std::memcmp(file.get("c").bytes.data(), "hello", 5), 0);
  EXPECT_EQ(file.find("d"), nullptr);
}

// What the reference implementation writes for {"b": F32 (2), "a": U8 ()}: sorted by alignment, padded to 8.
TEST(Safetensors, WritesWhatTheReferenceWrites) {
  const TemporaryDirectory dir;
  Tensor a(Shape{}, DType::kU8), b({2});
  a.view().data[0] = std::byte{7};
  b.f32()[1] = 1;
  write_safetensors(dir / "f", {{"a", a}, {"b", b}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
      R"("a":{"dtype":"U8","shape":[],"data_offsets":[8,9]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_text_file(dir / "f"), safetensors_bytes(padded, std::string("\0\0\0\0\0\0\x80\x3f\x07", 9)));
}

TEST(Safetensors, EveryElementType) {
  const TemporaryDirectory dir;
  using D = DType;
  const std::vector<std::pair<D, std::string>> names = {
      {D::kF32, "F32"}, {D::kF64, "F64"}, {D::kF16, "F16"}, {D::kBF16, "BF16"}, {D::kI8, "I8"},
      {D::kU8, "U8"},   {D::kI16, "I16"}, {D::kU16, "U16"}, {D::kI32, "I32"},   {D::kI64, "I64"}};
  std::vector<Tensor> tensors;
  std::vector<NamedView> views;
  for (const auto& [dtype, name] : names) {
    tensors.emplace_back(Shape{3}, dtype);
    std::memset(tensors.back().view().data, static_cast<int>(tensors.size()), 3);
    views.push_back({name, tensors.back()});
  }
  write_safetensors(dir / "f", views);
  const SafetensorsFile file(dir / "f");
  ASSERT_EQ(file.arrays().size(), names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    const NamedArray& array = file.get(names[i].second);
    EXPECT_EQ(array.dtype, names[i].second);
    EXPECT_EQ(array.shape, std::vector<int64_t>{3});
    EXPECT_EQ(std::ssize(array.bytes), dtype_bytes(names[i].first, 3));
    EXPECT_EQ(std::memcmp(array.bytes.data(), tensors[i].view().data, array.bytes.size()), 0);
  }
}

TEST(Safetensors, NoArraysAndManyArrays) {
  const TemporaryDirectory dir;
  write_safetensors(dir / "none", {});
  EXPECT_TRUE(SafetensorsFile(dir / "none").arrays().empty());
  Tensor one({1});
  std::vector<NamedView> views;
  for (int i = 0; i < 3000; ++i) views.push_back({fmt::format("layer.{}", i), one});
  write_safetensors(dir / "many", views);
  const SafetensorsFile file(dir / "many");
  EXPECT_EQ(file.arrays().size(), 3000u);
  for (const NamedView& v : views) ASSERT_NE(file.find(v.name), nullptr);
}

TEST(Safetensors, MovesKeepTheirArrays) {
  const TemporaryDirectory dir;
  Tensor a({2});
  a.f32()[1] = 5;
  write_safetensors(dir / "f", {{"a", a}});
  SafetensorsFile first(dir / "f");
  const SafetensorsFile second = std::move(first);
  EXPECT_EQ(second.f32("a", {2}).f32()[1], 5);
}

TEST(Safetensors, AsksForWhatIsNotThere) {
  const TemporaryDirectory dir;
  Tensor a({2, 3}), b({2}, DType::kI32), five;
  write_safetensors(dir / "f", {{"a", a}, {"b", b}});
  const SafetensorsFile file(dir / "f");
  expect_error(ErrorKind::kData, {"/f: tensor \"c\\x0a\" is missing among the 2 of the file"},
               [&] { file.get("c\n"); });
  expect_error(ErrorKind::kData, {"/f: tensor \"c\" is missing"}, [&] { file.f32("c", {1}); });
  expect_error(ErrorKind::kData, {"/f: tensor \"a\": shape (2, 3) where (3, 2) is expected"}, [&] {
    file.f32("a", {3, 2});
  });
  expect_error(ErrorKind::kData, {"shape (2, 3) where (2, 3, 1) is expected"}, [&] {
    file.f32("a", {2, 3, 1});
  });
  expect_error(ErrorKind::kData, {"shape (2, 3) where () is expected"}, [&] { file.f32("a", {}); });
  expect_error(ErrorKind::kData, {"/f: tensor \"b\": dtype I32 where F32 is expected"},
               [&] { file.f32("b", {2}); });
}

// Other writers neither align nor order their arrays.
TEST(Safetensors, UnalignedAndUnorderedArraysAreReadAligned) {
  const TemporaryDirectory dir;
  const float values[] = {1.5f, -2.5f};
  std::string data(1, '\x09');
  data.append(reinterpret_cast<const char*>(values), 8);
  for (const char* padding : {"", " ", "  ", "   ", "    "}) {
    const std::string header = std::string(R"({"late":{"dtype":"F32","shape":[2],"data_offsets":[1,9]},)") +
                               R"("none":{"data_offsets":[1,1],"shape":[0,7],"dtype":"F64"},)" +
                               R"("early":{"shape":[1],"dtype":"I8","data_offsets":[0,1]}})" + padding;
    write_bytes(dir / "f", safetensors_bytes(header, data));
    const SafetensorsFile file(dir / "f");
    ASSERT_EQ(file.arrays().size(), 3u);
    EXPECT_EQ(file.arrays()[0].name, "early");
    EXPECT_EQ(file.arrays()[1].name, "none");
    EXPECT_EQ(file.arrays()[2].name, "late");
    const float* const p = file.f32("late", {2}).f32();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % sizeof(float), 0u);
    EXPECT_EQ(p[0], 1.5f);
    EXPECT_EQ(p[1], -2.5f);
    EXPECT_EQ(file.get("none").elements(), 0);
    EXPECT_EQ(file.get("early").bytes[0], std::byte{9});
  }
}

TEST(Safetensors, RefusesWhatCannotBeWritten) {
  const TemporaryDirectory dir;
  Tensor a({2, 3}), quantised({32}, DType::kQ8_0);
  View strided = a.view();
  strided.strides[0] = 5;
  const auto refused = [&](std::initializer_list<std::string_view> parts,
                           const std::vector<NamedView>& arrays,
                           const std::map<std::string, std::string>& metadata = {}) {
    expect_error(ErrorKind::kUse, parts, [&] { write_safetensors(dir / "f", arrays, metadata); });
  };
  refused({"/f: two tensors are named \"a\"; rename one"}, {{"a", a}, {"b", a}, {"a", quantised}});
  refused({"/f: a tensor cannot be named \"__metadata__\""}, {{"__metadata__", a}});
  refused({"/f: tensor \"a\": the view (2, 3) is strided; copy it first"}, {{"a", strided}});
  refused({"/f: tensor \"a\": the view has no data"}, {{"a", ConstView(nullptr, DType::kF32, {2})}});
  refused({"/f: tensor \"q\": safetensors cannot hold q8_0"}, {{"q", quantised}});
  refused({"/f: cannot write the name \"\\xff\": it is not UTF-8"}, {{"\xff", a}});
  refused({"/f: cannot write the name \"\\xff\": it is not UTF-8"}, {{"a", a}}, {{"k", "\xff"}});
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(Safetensors, AFailedWriteKeepsTheOldFile) {
  const TemporaryDirectory dir;
  Tensor a({2});
  a.f32()[0] = 1;
  write_safetensors(dir / "f", {{"a", a}});
  a.f32()[0] = 2;
  std::filesystem::create_directory(dir / "f.tril-tmp");
  expect_error(ErrorKind::kData,
               {"/f.tril-tmp: cannot write: Is a directory; choose another name, or move away"}, [&] {
                 write_safetensors(dir / "f", {{"a", a}});
               });
  EXPECT_EQ(SafetensorsFile(dir / "f").f32("a", {2}).f32()[0], 1);
  expect_error(ErrorKind::kData, {"/no/f: cannot write: No such file"}, [&] {
    write_safetensors(dir / "no/f", {{"a", a}});
  });
}

TEST(Safetensors, ReadsTheFilesOfOthers) {
  const auto models = testing::test_data("models");
  if (!models) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  for (const auto& [name, count] : {std::pair{"seed-tiny/state", 59},
                                    {"seed-tiny/golden_logits", 2},
                                    {"seed-tiny/golden_gradients", 50},
                                    {"seed-tiny/golden_curve", 3},
                                    {"seed-tiny/old_without_proj_logits", 2},
                                    {"stories260K-hf/model", 47},
                                    {"stories260K-hf/golden_logits", 2}}) {
    const SafetensorsFile file(*models / (std::string(name) + ".safetensors"));
    EXPECT_EQ(file.arrays().size(), static_cast<size_t>(count)) << name;
  }
  const SafetensorsFile state(*models / "seed-tiny/state.safetensors");
  const ConstView key = state.f32("attn_blocks.0.attn.heads.0.key.weight", {12, 48});
  double sum = 0;
  for (int64_t i = 0; i < key.elements(); ++i) sum += std::abs(key.f32()[i]);
  EXPECT_GT(sum, 0);
  EXPECT_LT(sum, 576);
  const NamedArray& positions = state.get("pos_idxs");
  EXPECT_EQ(positions.dtype, "I64");
  for (int64_t i = 0; i < 32; ++i) {
    int64_t position = -1;
    std::memcpy(&position, positions.bytes.data() + 8 * i, 8);
    EXPECT_EQ(position, i);
  }
  const SafetensorsFile model(*models / "stories260K-hf/model.safetensors");
  EXPECT_EQ(model.metadata().at("format"), "pt");
  EXPECT_EQ(model.f32("model.embed_tokens.weight", {512, 64}).elements(), 512 * 64);
}

// Reading and writing again gives the same bytes, since the order and the padding are the reference's.
TEST(Safetensors, RewritesTheFileOfTheReferenceByteForByte) {
  const auto path = testing::test_data("models/stories260K-hf/model.safetensors");
  if (!path) GTEST_SKIP() << "TRIL_TEST_DATA is not set";
  const TemporaryDirectory dir;
  const SafetensorsFile file(*path);
  std::vector<NamedView> views;
  for (const NamedArray& a : file.arrays()) {
    ASSERT_EQ(a.dtype, "F32");
    const Shape shape = a.shape.size() == 1 ? Shape{a.shape[0]} : Shape{a.shape[0], a.shape[1]};
    views.push_back({a.name, ConstView(a.bytes.data(), DType::kF32, shape)});
  }
  write_safetensors(dir / "f", views, file.metadata());
  EXPECT_TRUE(read_text_file(dir / "f") == read_text_file(*path));
}

}  // namespace
}  // namespace tril
