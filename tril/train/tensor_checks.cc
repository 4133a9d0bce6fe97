#include "tril/train/tensor_checks.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tril/kernels/elementwise.h"

namespace tril {
namespace {

bool is_finite(Executor& executor, const View& view) {
  int64_t bad = -1;
  first_non_finite(executor, view.elements(), view.f32(), &bad);
  return bad < 0;
}

// "element 5 is nan, 3 of 96 are not finite, the others from -0.31 to 0.4 with norm 1.2"
std::string statistics(const View& view) {
  int64_t first = -1, bad = 0;
  float least = std::numeric_limits<float>::infinity(), most = -least;
  double squares = 0;
  for (int64_t i = 0; i < view.elements(); ++i) {
    const float x = view.f32()[i];
    if (std::isfinite(x)) {
      least = std::min(least, x);
      most = std::max(most, x);
      squares += double{x} * double{x};
    } else {
      if (bad++ == 0) first = i;
    }
  }
  std::string text = fmt::format("element {} is {}, {} of {} {} not finite", first, view.f32()[first], bad,
                                 view.elements(), bad == 1 ? "is" : "are");
  if (bad < view.elements())
    text +=
        fmt::format(", the others from {:.3g} to {:.3g} with norm {:.3g}", least, most, std::sqrt(squares));
  return text;
}

}  // namespace

std::optional<NonFinite> find_non_finite(Executor& executor, const Parameters& parameters,
                                         bool gradients_too) {
  for (const bool gradient : {false, true}) {
    if (gradient && !gradients_too) break;
    const Parameters::Item* first = nullptr;
    int64_t bad = 0;
    for (const Parameters::Item& item : parameters.items()) {
      if (is_finite(executor, gradient ? item.weight->gradient : item.weight->value)) continue;
      if (bad++ == 0) first = &item;
    }
    if (first == nullptr) continue;
    return NonFinite{
        !gradient,
        fmt::format("the first bad tensor is the {} {} {}: {}; {} of {} {} {} bad",
                    gradient ? "gradient of" : "weight", first->info.name, first->info.shape.to_string(),
                    statistics(gradient ? first->weight->gradient : first->weight->value), bad,
                    parameters.items().size(), gradient ? "gradients" : "weights", bad == 1 ? "is" : "are")};
  }
  return std::nullopt;
}

int64_t count_zero_rows(const View& matrix) {
  const int64_t rows = matrix.shape[0], columns = matrix.shape[1];
  int64_t zero = 0;
  for (int64_t r = 0; r < rows; ++r) {
    const float* const row = matrix.f32() + r * columns;
    zero += std::all_of(row, row + columns, [](float x) { return x == 0; });
  }
  return zero;
}

}  // namespace tril
