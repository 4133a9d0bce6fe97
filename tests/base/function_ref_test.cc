#include "tril/base/function_ref.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace tril {
namespace {

int twice(int x) { return 2 * x; }

int call(FunctionRef<int(int)> f, int x) { return f(x); }

TEST(FunctionRef, CallsLambdasFunctionsAndConstObjects) {
  int calls = 0;
  EXPECT_EQ(call([&](int x) { return ++calls, x + 1; }, 4), 5);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(call(*std::make_unique<int (*)(int)>(&twice), 4), 8);
  const auto constant = [](int x) { return x * x; };
  EXPECT_EQ(call(constant, 5), 25);
}

TEST(FunctionRef, RefersToTheObjectItself) {
  struct Counter {
    int count = 0;
    int operator()(int x) { return count += x; }
  } counter;
  const FunctionRef<int(int)> f = counter;
  f(2);
  const FunctionRef<int(int)> copy = f;  // the same object, not a reference to f
  copy(3);
  EXPECT_EQ(counter.count, 5);
}

TEST(FunctionRef, ForwardsReferencesAndMoveOnlyArguments) {
  std::string text = "a";
  const auto append = [](std::string& s, std::unique_ptr<int> p) { s += std::to_string(*p); };
  FunctionRef<void(std::string&, std::unique_ptr<int>)>{append}(text, std::make_unique<int>(7));
  EXPECT_EQ(text, "a7");
}

TEST(FunctionRef, EmptyUntilSet) {
  FunctionRef<void()> f;
  EXPECT_FALSE(f);
  const auto nothing = [] {};
  f = nothing;
  EXPECT_TRUE(f);
}

TEST(FunctionRef, IsTwoWords) { EXPECT_EQ(sizeof(FunctionRef<void()>), 2 * sizeof(void*)); }

}  // namespace
}  // namespace tril
