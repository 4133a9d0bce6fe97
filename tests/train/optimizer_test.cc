#include "tril/train/optimizer.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/support/compare.h"
#include "tests/support/counting_executor.h"
#include "tests/train/small_run.h"
#include "tril/kernels/chunks.h"

namespace tril {
namespace {

// One matrix, one bias.
struct Toy {
  Weight matrix, bias;
  void visit(const std::string& prefix, ParameterVisitor v) {
    v({.name = prefix + "matrix", .shape = {7, 5}, .init_std = 1, .decay = true, .hidden = true}, matrix);
    v({.name = prefix + "bias", .shape = {5}, .init_std = 1}, bias);
  }
};

TrainOptions toy_options() {
  TrainOptions o = testing::small_options();
  o.learning_rate = 0.05f;
  o.weight_decay = 0.3f;
  o.beta1 = 0.8f;
  o.beta2 = 0.95f;
  o.clip = 1.5f;
  return o;
}

void fill_gradients(const Parameters& parameters, uint64_t step, double scale) {
  for (const auto& item : parameters.items()) {
    const auto g =
        testing::random_floats(100 + step, static_cast<size_t>(item.weight->value.elements()), scale);
    std::copy(g.begin(), g.end(), item.weight->gradient.f32());
  }
}

std::vector<float> values(const Parameters& parameters) {
  std::vector<float> out;
  for (const auto& item : parameters.items())
    out.insert(out.end(), item.weight->value.f32(), item.weight->value.f32() + item.weight->value.elements());
  return out;
}

// AdamW in double, written out from the paper.
struct Reference {
  std::vector<double> w, m, v;

  double step(const std::vector<double>& g, const TrainOptions& o, int64_t t, bool decay_bias) {
    double square = 0;
    for (const double x : g) square += x * x;
    const double norm = std::sqrt(square), factor = o.clip > 0 && norm > o.clip ? o.clip / norm : 1;
    const double lr = learning_rate_at(o, t);
    for (size_t i = 0; i < w.size(); ++i) {
      const double x = g[i] * factor, decay = i < 35 || decay_bias ? o.weight_decay : 0;
      m[i] = o.beta1 * m[i] + (1.0 - o.beta1) * x;
      v[i] = o.beta2 * v[i] + (1.0 - o.beta2) * x * x;
      const double m_hat = m[i] / (1 - std::pow(o.beta1, t + 1)),
                   v_hat = v[i] / (1 - std::pow(o.beta2, t + 1));
      w[i] -= lr * decay * w[i];
      w[i] -= lr * m_hat / (std::sqrt(v_hat) + o.epsilon);
    }
    return norm;
  }
};

void expect_follows_reference(const TrainOptions& o, double gradient_scale) {
  Toy toy;
  Parameters parameters(toy);
  parameters.initialize(3);
  Optimizer optimizer(parameters, o);
  SerialExecutor executor;
  const std::vector<float> start = values(parameters);
  Reference reference{
      .w = {start.begin(), start.end()}, .m = std::vector<double>(40), .v = std::vector<double>(40)};
  for (int64_t t = 0; t < 12; ++t) {
    fill_gradients(parameters, static_cast<uint64_t>(t), gradient_scale);
    std::vector<double> g;
    for (const auto& item : parameters.items())
      g.insert(g.end(), item.weight->gradient.f32(),
               item.weight->gradient.f32() + item.weight->gradient.elements());
    const double norm = optimizer.update(executor, t);
    EXPECT_NEAR(norm, reference.step(g, o, t, o.decay_all), 1e-9 * norm);
  }
  const std::vector<float> end = values(parameters);
  double moved = 0;
  for (size_t i = 0; i < end.size(); ++i) {
    EXPECT_NEAR(end[i], reference.w[i], 2e-6) << i;
    moved = std::max(moved, std::abs(static_cast<double>(end[i]) - start[i]));
  }
  EXPECT_GT(moved, 0.1);
  for (const auto& item : parameters.items())
    testing::expect_all_zero(
        "gradient", {item.weight->gradient.f32(), static_cast<size_t>(item.weight->gradient.elements())});
}

TEST(Optimizer, FollowsAdamWInDouble) { expect_follows_reference(toy_options(), 0.01); }
TEST(Optimizer, ClipsByTheGlobalNorm) { expect_follows_reference(toy_options(), 5); }
TEST(Optimizer, ClipsJustAboveTheNorm) { expect_follows_reference(toy_options(), 0.3); }  // about 1.9 to 1.5
TEST(Optimizer, DecaysEverythingWhenAsked) {
  TrainOptions o = toy_options();
  o.decay_all = true;
  expect_follows_reference(o, 0.01);
}
TEST(Optimizer, DoesNotClipWhenToldNotTo) {
  TrainOptions o = toy_options();
  o.clip = 0;
  expect_follows_reference(o, 5);
}

TEST(Optimizer, WithoutGradientOnlyMatricesShrink) {
  Toy toy;
  Parameters parameters(toy);
  parameters.initialize(3);
  Optimizer optimizer(parameters, toy_options());
  SerialExecutor executor;
  const std::vector<float> before = values(parameters);
  EXPECT_EQ(optimizer.update(executor, 0), 0);
  const std::vector<float> after = values(parameters);
  const float rate = learning_rate_at(toy_options(), 0);
  for (size_t i = 0; i < 35; ++i) EXPECT_NEAR(after[i], before[i] * (1 - rate * 0.3f), 1e-6) << i;
  for (size_t i = 35; i < 40; ++i) EXPECT_EQ(after[i], before[i]) << i;
}

TEST(Optimizer, LeavesEverythingWhenAGradientIsNotFinite) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    Toy toy;
    Parameters parameters(toy);
    parameters.initialize(3);
    Optimizer optimizer(parameters, toy_options());
    SerialExecutor executor;
    fill_gradients(parameters, 1, 1);
    optimizer.update(executor, 0);
    const std::vector<float> before = values(parameters);
    const float m = optimizer.moments()[0].m.f32()[3];
    fill_gradients(parameters, 2, 1);
    toy.bias.gradient.f32()[4] = bad;
    EXPECT_FALSE(std::isfinite(optimizer.update(executor, 1)));
    testing::expect_same_bits("weights", values(parameters), before);
    EXPECT_EQ(optimizer.moments()[0].m.f32()[3], m);
    testing::expect_all_zero("gradients", {toy.matrix.gradient.f32(), 35});
  }
}

// Parameters of many sizes: several ranges, several in a task, all in one task.
struct Sizes {
  explicit Sizes(std::vector<int64_t> s) : sizes(std::move(s)), weights(sizes.size()) {}
  void visit(const std::string& prefix, ParameterVisitor v) {
    for (size_t i = 0; i < sizes.size(); ++i)
      v({.name = fmt::format("{}{}", prefix, i), .shape = {sizes[i]}, .init_std = 1, .decay = i % 2 == 0},
        weights[i]);
  }
  std::vector<int64_t> sizes;
  std::vector<Weight> weights;
};

// Each parameter by itself gives the same bits: what one pass over all of them must not change.
TEST(Optimizer, OnePassOverAllParametersEqualsOneForEach) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{3, 70, 1, 16, 20000}, {5, 40000, 17, 16384, 2, 70001, 9}}) {
    Sizes layer(sizes);
    Parameters parameters(layer);
    parameters.initialize(3);
    const TrainOptions o = toy_options();
    Optimizer optimizer(parameters, o);
    std::vector<std::vector<float>> w, m, v;
    for (const auto& item : parameters.items()) {
      w.emplace_back(item.weight->value.f32(), item.weight->value.f32() + item.weight->value.elements());
      m.emplace_back(w.back().size());
      v.emplace_back(w.back().size());
    }
    testing::CountingExecutor executor(2);
    SerialExecutor serial;
    for (int64_t step = 0; step < 3; ++step) {
      fill_gradients(parameters, static_cast<uint64_t>(step), 1);
      double total = 0;
      AdamWStep update{.learning_rate = learning_rate_at(o, step), .beta1 = o.beta1, .beta2 = o.beta2};
      update.epsilon = o.epsilon, update.step = step + 1;
      for (const auto& item : parameters.items()) {
        double sum = 0;
        for (int64_t begin = 0, count = item.info.shape.elements(); begin < count; begin += kChunkElements)
          sum += sum_of_squares(std::min(kChunkElements, count - begin), item.weight->gradient.f32() + begin);
        total += sum;
      }
      update.gradient_scale = static_cast<float>(o.clip / std::sqrt(total));
      for (size_t i = 0; i < sizes.size(); ++i) {
        const View& gradient = parameters.items()[i].weight->gradient;
        std::vector<float> g(gradient.f32(), gradient.f32() + gradient.elements());
        update.weight_decay = i % 2 == 0 ? o.weight_decay : 0;
        adamw(serial, update, sizes[i], w[i].data(), g.data(), m[i].data(), v[i].data());
      }
      EXPECT_EQ(optimizer.update(executor, step), std::sqrt(total));
    }
    const bool small = sizes.size() == 5;
    EXPECT_EQ(executor.runs, std::vector<int64_t>(6, small ? 1 : executor.runs[0]));
    EXPECT_EQ(executor.runs[0] > 6, !small);
    for (size_t i = 0; i < sizes.size(); ++i) {
      const View& value = parameters.items()[i].weight->value;
      if (sizes[i] == 1) continue;  // too constant to be compared
      const auto count = static_cast<size_t>(value.elements());
      testing::expect_same_bits("w", {value.f32(), count}, w[i]);
      testing::expect_same_bits("m", {optimizer.moments()[i].m.f32(), count}, m[i]);
      testing::expect_same_bits("v", {optimizer.moments()[i].v.f32(), count}, v[i]);
    }
  }
}

// The average of the weights after each step, written out.
TEST(Optimizer, AveragesTheWeights) {
  for (const char* name : {"adamw", "muon"}) {
    Toy toy;
    Parameters parameters(toy);
    parameters.initialize(3);
    TrainOptions o = toy_options();
    o.ema = 0.8f;
    o.optimizer = name;
    o.schedule = "constant";
    Optimizer optimizer(parameters, o);
    SerialExecutor executor;
    std::vector<double> average(40);
    for (int64_t t = 1; t <= 60; ++t) {
      fill_gradients(parameters, static_cast<uint64_t>(t), 1);
      optimizer.update(executor, t - 1);
      const std::vector<float> w = values(parameters);
      const double rate = std::max(0.2, 9.0 / static_cast<double>(t + 8));
      for (size_t i = 0; i < 40; ++i) average[i] += rate * (w[i] - average[i]);
    }
    const std::vector<float> before = values(parameters);
    {
      const AveragedWeights averaged(optimizer), again(optimizer);
      const std::vector<float> inside = values(parameters);
      double distance = 0;
      for (size_t i = 0; i < 40; ++i) {
        EXPECT_NEAR(inside[i], average[i], 1e-6) << i;
        distance = std::max(distance, std::abs(double{inside[i]} - before[i]));
      }
      EXPECT_GT(distance, 1e-3);
    }
    testing::expect_same_bits("weights", values(parameters), before);
  }
}

TEST(Optimizer, LargeGradientsDoNotOverflowTheNorm) {
  Toy toy;
  Parameters parameters(toy);
  Optimizer optimizer(parameters, toy_options());
  SerialExecutor executor;
  std::fill_n(toy.matrix.gradient.f32(), 35, 1e30f);
  EXPECT_NEAR(optimizer.update(executor, 0), std::sqrt(35.0) * 1e30, 1e24);
  EXPECT_TRUE(std::isfinite(toy.matrix.value.f32()[0]));
}

}  // namespace
}  // namespace tril
