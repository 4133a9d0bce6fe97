// Files of others that are not part of the project: found through the environment variable TRIL_TEST_DATA.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

namespace tril::testing {

// Nothing if the variable is unset: the test should then skip and say so.
inline std::optional<std::filesystem::path> test_data(const std::string& name) {
  const char* const folder = std::getenv("TRIL_TEST_DATA");
  if (folder == nullptr || *folder == '\0') return std::nullopt;
  return std::filesystem::path(folder) / name;
}

}  // namespace tril::testing
