// A hundred training steps of each architecture as PyTorch computed them, from the same weights on the same
// batches. tests/interop_scripts/make_golden_curves.py writes the files and says what is in them.
#include <gtest/gtest.h>

#include <cmath>

#include "tril/containers/safetensors.h"
#include "tril/train/trainer.h"

namespace tril {
namespace {

template <class T>
std::span<const T> elements(const SafetensorsFile& file, const char* name, std::string_view dtype) {
  const NamedArray& array = file.get(name);
  EXPECT_EQ(array.dtype, dtype) << name;
  EXPECT_EQ(array.bytes.size(), static_cast<size_t>(array.elements()) * sizeof(T)) << name;
  return {reinterpret_cast<const T*>(array.bytes.data()), static_cast<size_t>(array.elements())};
}

// Every weight of the model, and no other, is in the file.
void load_initial(const SafetensorsFile& file, const Parameters& parameters) {
  size_t theirs = 0;
  for (const NamedArray& array : file.arrays()) theirs += array.name.starts_with("initial.");
  ASSERT_EQ(theirs, parameters.items().size());
  for (const Parameters::Item& item : parameters.items()) {
    const ConstView from = file.f32("initial." + item.info.name, item.info.shape);
    std::copy_n(from.f32(), from.elements(), item.weight->value.f32());
  }
}

// The batches (steps, B, T + 1) of a file: inputs and targets overlap.
class GoldenBatches {
 public:
  GoldenBatches(const SafetensorsFile& file, const TrainOptions& options)
      : windows_(elements<uint8_t>(file, "batches", "U8")), batch_(options.batch), time_(options.context) {
    const std::vector<int64_t> expected = {options.steps, batch_, time_ + 1};
    EXPECT_EQ(file.get("batches").shape, expected);
  }

  Batch get(int64_t step) {
    inputs_.clear();
    targets_.clear();
    for (int64_t row = step * batch_; row < (step + 1) * batch_; ++row) {
      const auto window = windows_.subspan(static_cast<size_t>(row * (time_ + 1)));
      inputs_.insert(inputs_.end(), window.begin(), window.begin() + time_);
      targets_.insert(targets_.end(), window.begin() + 1, window.begin() + 1 + time_);
    }
    return {.batch = batch_, .time = time_, .tokens = inputs_.data(), .targets = targets_.data()};
  }

 private:
  std::span<const uint8_t> windows_;
  int64_t batch_, time_;
  std::vector<int32_t> inputs_, targets_;
};

void expect_near(const char* what, double ours, double theirs, double relative, int64_t step) {
  ASSERT_TRUE(std::isfinite(theirs) && theirs > 0) << what << " of step " << step;
  ASSERT_NEAR(ours, theirs, relative * theirs) << what << " of step " << step;
}

class GoldenCurve : public ::testing::TestWithParam<const char*> {};

TEST_P(GoldenCurve, IsFollowed) {
  const SafetensorsFile file(Path(TRIL_GOLDEN_CURVES) / (std::string(GetParam()) + ".safetensors"));
  TrainOptions options;
  options_from_json(file.metadata().at("options"), file.path().string(), options);
  ASSERT_EQ(options.arch, GetParam());
  ASSERT_EQ(options.steps, 100);
  GoldenBatches batches(file, options);
  const Corpus none;
  ThreadPool pool(2);
  Trainer trainer(model_config(options, 65), options, none, pool);
  load_initial(file, trainer.parameters());

  const auto losses = elements<float>(file, "losses", "F32"),
             norms = elements<float>(file, "gradient_norms", "F32");
  const auto rates = elements<double>(file, "learning_rates", "F64");
  for (const size_t count : {losses.size(), norms.size(), rates.size()}) ASSERT_EQ(count, 100u);
  for (size_t i = 0; i < 100; ++i) {
    const auto step = static_cast<int64_t>(i);
    const Batch batch = batches.get(step);
    const StepReport report = trainer.step_on({&batch, 1});
    expect_near("learning rate", report.learning_rate, rates[i], 1e-6, step);
    expect_near("loss", report.loss, losses[i], 1e-5, step);
    expect_near("gradient norm", report.gradient_norm, norms[i], 1e-4, step);
    if (HasFatalFailure()) return;  // all later steps differ too
  }
  EXPECT_LT(losses[99], 0.6f * losses[0]) << "the curve does not fall and proves little";
}

INSTANTIATE_TEST_SUITE_P(Architectures, GoldenCurve, ::testing::Values("gpt", "llama", "classic"),
                         [](const auto& architecture) { return std::string(architecture.param); });

}  // namespace
}  // namespace tril
