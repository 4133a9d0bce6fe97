#include "tril/kernels/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>
#include <vector>

#include "tril/base/error.h"
#include "tril/kernels/chunks.h"

namespace tril {
namespace {

constexpr std::pair<RopeScaling, std::string_view> kNames[] = {{RopeScaling::kNone, "none"},
                                                               {RopeScaling::kLinear, "linear"},
                                                               {RopeScaling::kNtk, "ntk"},
                                                               {RopeScaling::kLlama3, "llama3"},
                                                               {RopeScaling::kYarn, "yarn"}};
constexpr int64_t kMostPairs = 128;  // head sizes to 256

// kLlama3: wavelengths above original / low are divided, those below original / high stay.
double llama3(const RopeConfig& rope, double frequency) {
  const double turns = static_cast<double>(rope.original_context) * frequency / (2 * std::numbers::pi);
  const double low = rope.low_frequency_factor, high = rope.high_frequency_factor;
  const double kept = std::clamp((turns - low) / (high - low), 0.0, 1.0);
  return frequency * (kept + (1 - kept) / rope.factor);
}

// kYarn: the pair, as a fraction, that makes `turns` turns over the original context.
double pair_of(const RopeConfig& rope, int64_t size, double turns) {
  const double angle = static_cast<double>(rope.original_context) / (turns * 2 * std::numbers::pi);
  return static_cast<double>(size) * std::log(angle) / (2 * std::log(double{rope.base}));
}

}  // namespace

std::string_view rope_scaling_name(RopeScaling scaling) {
  for (const auto& [value, name] : kNames)
    if (value == scaling) return name;
  return "";
}

RopeScaling rope_scaling_from_name(std::string_view name) {
  for (const auto& [value, known] : kNames)
    if (name == known) return value;
  fail(ErrorKind::kUse, "rope scaling: '{}' is unknown; choose none, linear, ntk, llama3 or yarn", name);
}

void check_rope(const RopeConfig& r, int64_t head_size) {
  const int64_t size = rope_size(r, head_size);
  check_use(size >= 2 && size % 2 == 0 && size <= head_size && size <= 2 * kMostPairs,
            "rope: {} of {} features are to turn; give an even --rope-size of at most {}", size, head_size,
            std::min(head_size / 2, kMostPairs) * 2);
  check_use(r.base > 1 && std::isfinite(r.base), "rope: base {} must be above 1, such as 10000", r.base);
  check_use(r.factor >= 1 && r.factor <= 1e9f, "rope: factor {} must lie between 1 and 1e9", r.factor);
  check_use(r.scaling == RopeScaling::kNone ? r.factor == 1 : r.factor > 1,
            "rope: factor {} with {} scaling; a factor above 1 (--rope-factor) and a scaling "
            "(--rope-scaling) belong "
            "together",
            r.factor, rope_scaling_name(r.scaling));
  const bool needs_original = r.scaling == RopeScaling::kLlama3 || r.scaling == RopeScaling::kYarn;
  check_use(needs_original == (r.original_context > 0),
            "rope: {} scaling with an original context of {}; llama3 and yarn need one "
            "(--rope-original-context), the "
            "others have none",
            rope_scaling_name(r.scaling), r.original_context);
  check_use(r.scaling != RopeScaling::kNtk || size > 2, "rope: ntk scaling needs a size above 2, not {}",
            size);
  check_use(r.low_frequency_factor > 0 && r.high_frequency_factor > r.low_frequency_factor,
            "rope: frequency factors {} and {} must be positive and rising", r.low_frequency_factor,
            r.high_frequency_factor);
  check_use(r.beta_slow > 0 && r.beta_fast >= r.beta_slow,
            "rope: beta_fast {} and beta_slow {} must be positive "
            "and falling",
            r.beta_fast, r.beta_slow);
  check_use(r.attention_factor >= 0 && std::isfinite(r.attention_factor),
            "rope: attention factor {} must be positive, or 0 to have it chosen", r.attention_factor);
}

float rope_frequencies(const RopeConfig& rope, int64_t head_size, double* frequencies) {
  const int64_t size = rope_size(rope, head_size), pairs = size / 2;
  const auto width = static_cast<double>(size);
  double base = rope.base;
  if (rope.scaling == RopeScaling::kNtk) base *= std::pow(double{rope.factor}, width / (width - 2));
  double low = 0, high = 0;
  if (rope.scaling == RopeScaling::kYarn) {
    low = std::max(0.0, std::floor(pair_of(rope, size, rope.beta_fast)));
    high = std::min(width - 1, std::ceil(pair_of(rope, size, rope.beta_slow)));
    if (high <= low) high = low + 0.001;
  }
  for (int64_t i = 0; i < pairs; ++i) {
    const double frequency = std::pow(base, -2.0 * static_cast<double>(i) / width);
    double& f = frequencies[i];
    switch (rope.scaling) {
      case RopeScaling::kLinear:
        f = frequency / rope.factor;
        break;
      case RopeScaling::kLlama3:
        f = llama3(rope, frequency);
        break;
      case RopeScaling::kYarn: {
        const double divided = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
        f = frequency * (1 - divided + divided / rope.factor);
        break;
      }
      default:
        f = frequency;
    }
  }
  if (rope.scaling != RopeScaling::kYarn) return 1;
  if (rope.attention_factor != 0) return rope.attention_factor;
  return static_cast<float>(0.1 * std::log(double{rope.factor}) + 1);
}

void rope_rotation(Executor& executor, const RopeConfig& rope, int64_t head_size, int64_t rows,
                   const int32_t* positions, float* rotation) {
  check_rope(rope, head_size);
  const int64_t size = rope_size(rope, head_size), pairs = size / 2;
  parallel_for(executor, rows, rows_per_chunk(32 * size), [&](int64_t begin, int64_t end, int) {
    double frequencies[kMostPairs];
    const double factor = rope_frequencies(rope, head_size, frequencies);
    for (int64_t r = begin; r < end; ++r) {
      const double position = positions != nullptr ? positions[r] : static_cast<double>(r);
      float* const row = rotation + r * size;
      for (int64_t i = 0; i < pairs; ++i) {
        row[i] = static_cast<float>(factor * std::cos(position * frequencies[i]));
        row[pairs + i] = static_cast<float>(factor * std::sin(position * frequencies[i]));
      }
    }
  });
}

}  // namespace tril
