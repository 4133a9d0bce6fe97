// Expects a tril::Error of a kind whose one-line message contains each of the given parts.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <string_view>

#include "tril/base/error.h"

namespace tril::testing {

template <class Body>
void expect_error(ErrorKind kind, std::initializer_list<std::string_view> parts, Body&& body) {
  try {
    body();
    ADD_FAILURE() << "nothing was thrown; expected: " << (parts.size() ? *parts.begin() : "an error");
  } catch (const Error& e) {
    const std::string_view message = e.what();
    EXPECT_EQ(static_cast<int>(e.kind()), static_cast<int>(kind)) << message;
    EXPECT_EQ(message.find('\n'), message.npos) << message;
    for (const std::string_view part : parts)
      EXPECT_NE(message.find(part), message.npos) << '"' << part << "\" is not in: " << message;
  }
}

}  // namespace tril::testing
