#include "cli/near_name.h"

#include <algorithm>
#include <vector>

namespace tril::cli {

// Optimal string alignment: row i holds the distances of a's first i letters to every prefix of b.
int edit_distance(std::string_view a, std::string_view b) {
  const size_t columns = b.size() + 1;
  std::vector<int> before(columns), above(columns), row(columns);
  for (size_t j = 0; j < columns; ++j) above[j] = static_cast<int>(j);
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (size_t j = 1; j < columns; ++j) {
      const int replaced = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

std::string near_name(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > 64) return "";
  const std::string* best = nullptr;
  int least = std::max<int>(2, static_cast<int>(name.size()) / 3) + 1;
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(name, candidate);
    if (distance < least) {
      least = distance;
      best = &candidate;
    }
  }
  return best ? *best : "";
}

std::string suggestion(std::string_view name, std::span<const std::string> candidates) {
  const std::string near = near_name(name, candidates);
  return near.empty() ? "" : "; did you mean " + near + "?";
}

}  // namespace tril::cli
