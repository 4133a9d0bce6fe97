#include "cli/weights_option.h"

#include <array>

#include "tril/base/error.h"
#include "tril/interop/bound_weights.h"

namespace tril::cli {

void WeightsOption::add_to(CommandLine& line) {
  line.text(
      "--weights", type, "TYPE",
      "compute with weights of f32, f16, bf16, q8_0, q4_0 or q4_1, converted in memory (stored: as the file "
      "has them)");
}

LoadedModel WeightsOption::load(const Path& path, Executor& executor) const {
  constexpr std::array kTypes = {DType::kF32,  DType::kF16,  DType::kBF16,
                                 DType::kQ8_0, DType::kQ4_0, DType::kQ4_1};
  const auto* const found =
      std::find_if(kTypes.begin(), kTypes.end(), [&](DType dtype) { return dtype_info(dtype).name == type; });
  check_use(type == "stored" || found != kTypes.end(),
            "--weights is '{}'; give stored, f32, f16, bf16, q8_0, q4_0 or q4_1", type);
  LoadedModel loaded = load_model_as_stored(path, executor);
  if (type != "stored") loaded.parameters->convert(*found, executor);
  return loaded;
}

}  // namespace tril::cli
