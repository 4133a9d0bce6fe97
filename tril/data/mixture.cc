#include "tril/data/mixture.h"

#include <charconv>
#include <cmath>
#include <numeric>

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {

Mixture::Mixture(std::vector<int64_t> weights) : weights_(std::move(weights)), totals_(weights_.size()) {
  check_use(!weights_.empty() && std::ssize(weights_) <= kMostSources,
            "a mixture of {} sources: give 1 to {}", weights_.size(), kMostSources);
  int64_t total = 0;
  for (size_t s = weights_.size(); s-- > 0;) {
    check_use(weights_[s] >= 1 && weights_[s] <= kLargestWeight, "a mixture's weight is {}: give 1 to {}",
              weights_[s], kLargestWeight);
    totals_[s] = total += weights_[s];
  }
}

Mixture::Row Mixture::at(int64_t row) const {
  __extension__ using Wide = unsigned __int128;
  const size_t last = weights_.size() - 1;
  for (size_t s = 0; s < last; ++s) {
    const auto weight = static_cast<uint64_t>(weights_[s]), total = static_cast<uint64_t>(totals_[s]);
    const Wide scaled = Wide{static_cast<uint64_t>(row)} * weight + total / 2;
    const auto before = static_cast<int64_t>(scaled / total);
    const auto rest = static_cast<uint64_t>(scaled % total);
    if (rest + weight >= total) return {s, before};  // the next row has one more
    row -= before;
  }
  return {last, row};
}

std::vector<int64_t> parse_mixture(std::string_view text) {
  constexpr double kLeast = 1e-6, kMost = 1e6;
  std::vector<int64_t> weights;
  int64_t divisor = 0;
  const char *at = text.data(), *const end = at + text.size();
  while (true) {
    double weight = 0;
    const auto [next, error] = std::from_chars(at, end, weight);
    check_use(error == std::errc() && (next == end || *next == ',') && weight >= kLeast && weight <= kMost,
              "--mix '{}': give a weight from {:f} to {:.0f} for each source, with commas between: 0.7,0.3",
              printable(text), kLeast, kMost);
    weights.push_back(std::llround(weight * 1e6));
    divisor = std::gcd(divisor, weights.back());
    if (next == end) break;
    at = next + 1;
  }
  for (int64_t& weight : weights) weight /= divisor;
  return weights;
}

}  // namespace tril
