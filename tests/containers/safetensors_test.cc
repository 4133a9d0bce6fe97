#include "tril/containers/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;

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

}  // namespace
}  // namespace tril
