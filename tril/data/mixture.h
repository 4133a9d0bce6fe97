// Mixtures: several sources of text, read in given proportions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace tril {

// Which source each row of a run reads, and how many rows of that source came before: a pure function of the
// row's number, so that no history is kept. The rows are dealt out evenly: of any n in a row, source s has
// n w_s / sum(w) but for a few.
//
// Of the first n rows floor(n w_0 / W + 1/2) are the first source's, as in Bresenham, "Algorithm for computer
// control of a digital plotter" (1965); the rest is dealt out among the others in the same way.
class Mixture {
 public:
  // Throws kUse unless there are 1 to kMostSources weights, each from 1 to kLargestWeight.
  explicit Mixture(std::vector<int64_t> weights);
  static constexpr int64_t kMostSources = 1000, kLargestWeight = 1'000'000'000'000;

  struct Row {
    size_t source = 0;
    int64_t row = 0;  // of the source: how many of its rows came before
  };
  Row at(int64_t row) const;  // row >= 0

 private:
  std::vector<int64_t> weights_, totals_;  // totals_[s]: of source s and those after it
};

// "0.7,0.3" as the smallest integers in these proportions: {7, 3}. Six decimals count. Throws kUse naming the
// text unless it is numbers from 0.000001 to 1000000 with commas between them.
std::vector<int64_t> parse_mixture(std::string_view text);

}  // namespace tril
