// Heads alone, together, and the facts that docs/attention.md states about them.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/nn/model_fixture.h"
#include "tests/support/expect_error.h"
#include "tril/kernels/adamw.h"
#include "tril/kernels/cross_entropy.h"

namespace tril {
namespace {

using testing::random_floats;

Tensor random_tensor(const Shape& shape, uint64_t seed, double std_dev = 1) {
  Tensor t(shape);
  const auto values = random_floats(seed, static_cast<size_t>(shape.elements()), std_dev);
  std::copy(values.begin(), values.end(), t.f32());
  return t;
}

// MultiHeadAttention == concat(Head) + projection, forward and backward.
TEST(MultiHeadAttention, IsHeadsConcatenatedAndProjected) {
  constexpr int64_t b = 2, t = 10, c = 24, h = 3, d = 7;  // the head size is not channels / heads
  MultiHeadAttention attention({.heads = {.channels = c, .heads = h, .head_size = d}});
  Parameters parameters(attention);
  testing::randomize(parameters, 1);
  ThreadPool pool(2);
  Session session(attention, pool, b, t);
  const Tensor x = random_tensor({b, t, c}, 2), dy = random_tensor({b, t, c}, 3);
  Tensor y({b, t, c}), dx({b, t, c});
  attention.forward(session.context(), x, y, session.state());
  attention.backward(session.context(), x, dy, dx, session.state());

  Tensor concatenated({b * t, h * d}), dconcatenated({b * t, h * d}), dx_sum({b, t, c});
  Linear& projection = attention.projection;
  const Tensor projection_gradient_fused = [&] {  // keep the fused gradient before it is computed again
    Tensor copy({c, h * d});
    std::copy_n(projection.weight.gradient.f32(), c * h * d, copy.f32());
    return copy;
  }();
  projection.backward_input(session.context(), as_rows(dy, c, "dy"), dconcatenated);
  for (int64_t head = 0; head < h; ++head) {
    Head one({.channels = c, .head_size = d});
    Parameters own(one);
    float* const fused = attention.heads.qkv.weight.value.f32();
    float* const fused_gradient = attention.heads.qkv.weight.gradient.f32();
    float* const single = one.heads.qkv.weight.value.f32();
    for (int64_t part = 0; part < 3; ++part) {  // query, key, value rows of this head
      std::copy_n(fused + (part * h + head) * d * c, d * c, single + part * d * c);
    }
    Session alone(one, pool, b, t);
    Tensor y_head({b, t, d}), dy_head({b, t, d}), dx_head({b, t, c});
    one.forward(alone.context(), x, y_head, alone.state());
    for (int64_t n = 0; n < b * t; ++n) {
      std::copy_n(y_head.f32() + n * d, d, concatenated.f32() + n * h * d + head * d);
      std::copy_n(dconcatenated.f32() + n * h * d + head * d, d, dy_head.f32() + n * d);
    }
    one.backward(alone.context(), x, dy_head, dx_head, alone.state());
    for (int64_t i = 0; i < b * t * c; ++i) dx_sum.f32()[i] += dx_head.f32()[i];
    for (int64_t part = 0; part < 3; ++part) {
      for (int64_t i = 0; i < d * c; ++i) {
        ASSERT_NEAR(fused_gradient[(part * h + head) * d * c + i],
                    one.heads.qkv.weight.gradient.f32()[part * d * c + i], 2e-5)
            << "head " << head << " part " << part;
      }
    }
  }
  Tensor y_projected({b * t, c});
  projection.forward(session.context(), concatenated, y_projected);
  for (int64_t i = 0; i < b * t * c; ++i) {
    ASSERT_NEAR(y.f32()[i], y_projected.f32()[i], 1e-5);
    ASSERT_NEAR(dx.f32()[i], dx_sum.f32()[i], 1e-4);
  }
  Tensor gradient({c, h * d});
  projection.weight.gradient = gradient;
  projection.backward_weights(session.context(), concatenated, as_rows(dy, c, "dy"));
  for (int64_t i = 0; i < c * h * d; ++i)
    ASSERT_NEAR(gradient.f32()[i], projection_gradient_fused.f32()[i], 2e-4);
}

// The scale is 1/sqrt(head size), worked by hand: two tokens, two heads of size 1 in a model of width 2,
// where 1/sqrt(head size) = 1 and 1/sqrt(model width) = 0.707.
TEST(Heads, ScaleIsOfTheHeadSize) {
  Heads heads({.channels = 2, .heads = 2, .head_size = 1});
  Parameters parameters(heads);
  const float weights[12] = {1, 0, 0, 1, 2, 0, 0, 2, 1, 0, 0, 1};  // q = x, k = 2 x, v = x
  std::copy_n(weights, 12, heads.qkv.weight.value.f32());
  SerialExecutor executor;
  Arena saved(1 << 16), scratch(1 << 20);
  Context context{executor, scratch};
  Heads::State state = heads.plan(saved, 1, 2);
  Tensor x({2, 2});
  const float values[4] = {1, -1, 2, 0.5f};
  std::copy_n(values, 4, x.f32());
  heads.forward(context, 1, 2, x, state);
  // Head 0, query 2: scores 2*2*1 = 4 and 2*2*2 = 8; output (e^4 * 1 + e^8 * 2) / (e^4 + e^8).
  const double w = 1 / (1 + std::exp(-4.0));
  EXPECT_NEAR(state.out.f32()[2], (1 - w) * 1 + w * 2, 1e-6);
  // Head 1, query 0.5: scores 0.5*2*-1 = -1 and 0.5*2*0.5 = 0.5.
  const double u = 1 / (1 + std::exp(-1.5));
  EXPECT_NEAR(state.out.f32()[3], (1 - u) * -1 + u * 0.5, 1e-6);
  EXPECT_EQ(state.out.f32()[0], 1.0f);  // the first token sees itself only
}

// "Biases cancel" is true of the key bias alone.
TEST(Heads, OnlyTheKeyBiasCancels) {
  constexpr int64_t t = 12, c = 16, h = 2, d = 8;
  Heads heads({.channels = c, .heads = h, .head_size = d, .bias = true});
  Parameters parameters(heads);
  testing::randomize(parameters, 4);
  ThreadPool pool(1);
  Arena saved(1 << 20), scratch(1 << 22);
  Context context{pool, scratch};
  Heads::State state = heads.plan(saved, 1, t);
  const Tensor x = random_tensor({t, c}, 5);
  const auto run = [&](int part, float shift) {  // adds `shift` to the query, key or value bias; the output
    float* const bias = heads.qkv.bias.value.f32() + part * h * d;
    for (int64_t i = 0; i < h * d; ++i) bias[i] += shift;
    heads.forward(context, 1, t, x, state);
    for (int64_t i = 0; i < h * d; ++i) bias[i] -= shift;
    return std::vector<float>(state.out.f32(), state.out.f32() + t * h * d);
  };
  const auto base = run(0, 0), query = run(0, 1), key = run(1, 1), value = run(2, 1);
  double query_change = 0;
  for (size_t i = 0; i < base.size(); ++i) {
    EXPECT_NEAR(key[i], base[i], 2e-5);        // the same constant in a whole row of scores
    EXPECT_NEAR(value[i], base[i] + 1, 2e-5);  // weights sum to one: the bias comes through
    query_change = std::max(query_change, std::abs(double{query[i]} - base[i]));
  }
  EXPECT_GT(query_change, 0.05);  // weights between keys change

  // And so for the gradients: that of the key bias is zero but for rounding.
  const Tensor dout = random_tensor({t, h * d}, 6);
  Tensor dx({t, c});
  heads.forward(context, 1, t, x, state);
  heads.backward(context, 1, t, x, dout, dx, state);
  const float* const gradient = heads.qkv.bias.gradient.f32();
  double key_gradient = 0, query_gradient = 0, value_gradient = 0;
  for (int64_t i = 0; i < h * d; ++i) {
    query_gradient = std::max(query_gradient, std::abs(double{gradient[i]}));
    key_gradient = std::max(key_gradient, std::abs(double{gradient[h * d + i]}));
    value_gradient = std::max(value_gradient, std::abs(double{gradient[2 * h * d + i]}));
  }
  EXPECT_GT(query_gradient, 0.1);
  EXPECT_GT(value_gradient, 0.1);
  EXPECT_LT(key_gradient, 1e-4 * query_gradient);
}

// One attention layer that must say, with a linear readout, which tokens stood one and two places back: two
// things to look at from one place. A head makes one mixture; whichever token weighs more in it wins both
// answers.
double loss_of_copying_two_tokens(int64_t heads, int64_t head_size) {
  constexpr int64_t b = 16, t = 12, n = b * t, c = 32, v = 8;
  MultiHeadAttention attention({.heads = {.channels = c, .heads = heads, .head_size = head_size}});
  Linear readout({.in = c, .out = 2 * v, .init_std = 0.2f});  // V logits for one back, V for two back
  Parameters parameters(
      [&](ParameterVisitor visit) {
        attention.visit("attention.", visit);
        readout.visit("readout.", visit);
      },
      Parameters::Memory::kValuesAndGradients);
  testing::randomize(parameters, 11, 0.2);
  Tensor m({parameters.count() + 1024}), s({parameters.count() + 1024});
  const Tensor token_code = random_tensor({v, c}, 12), position_code = random_tensor({t, c}, 13);
  ThreadPool pool(1);
  Session session(attention, pool, b, t);
  Arena memory(1 << 24);
  const View x = memory.allocate({b, t, c}), y = memory.allocate({b, t, c}), dy = memory.allocate({b, t, c}),
             dx = memory.allocate({b, t, c}), logits = memory.allocate({n, 2 * v}),
             losses = memory.allocate({2 * n});
  Arena wide(1 << 24);  // for the readout's products
  const Context context{pool, wide};
  double mean = 0;
  constexpr int64_t kSteps = 500;
  for (int64_t step = 1; step <= kSteps; ++step) {
    const RandomStream random(21, "copy", static_cast<uint64_t>(step));
    std::vector<int32_t> tokens(n), targets(2 * n, 0);
    std::vector<uint8_t> mask(2 * n, 0);
    for (int64_t i = 0; i < n; ++i) {
      tokens[static_cast<size_t>(i)] = static_cast<int32_t>(random.below(static_cast<uint64_t>(i), v));
      for (int64_t k = 0; k < c; ++k) {
        x.f32()[i * c + k] =
            token_code.f32()[tokens[static_cast<size_t>(i)] * c + k] + position_code.f32()[i % t * c + k];
      }
      for (int64_t back = 1; back <= 2; ++back) {  // rows 2i and 2i + 1 of the logits seen as (2N, V)
        if (i % t < 2) continue;
        targets[static_cast<size_t>(2 * i + back - 1)] = tokens[static_cast<size_t>(i - back)];
        mask[static_cast<size_t>(2 * i + back - 1)] = 1;
      }
    }
    const float counted = 2 * b * (t - 2);
    attention.forward(session.context(), x, y, session.state());
    readout.forward(context, y.reshape({n, c}), logits);
    cross_entropy(pool, 2 * n, v, logits.f32(), targets.data(), mask.data(), 1 / counted, 0, 0, losses.f32());
    readout.backward(context, y.reshape({n, c}), logits, dy.reshape({n, c}));
    attention.backward(session.context(), x, dy, dx, session.state());
    int64_t at = 0;
    for (const auto& item : parameters.items()) {
      const int64_t count = item.weight->value.elements();
      adamw(pool, {.learning_rate = 0.01f, .beta2 = 0.99f, .step = step}, count, item.weight->value.f32(),
            item.weight->gradient.f32(), m.f32() + at, s.f32() + at);
      at += count;
    }
    if (step > kSteps - 50) {
      for (int64_t i = 0; i < 2 * n; ++i) mean += losses.f32()[i] / counted / 50;
    }
  }
  return mean;
}

TEST(Heads, SeveralHeadsBeatOne) {
  const double one = loss_of_copying_two_tokens(1, 32), two = loss_of_copying_two_tokens(2, 16);
  RecordProperty("loss_one_head", std::to_string(one));
  RecordProperty("loss_two_heads", std::to_string(two));
  EXPECT_LT(two, 0.25);
  EXPECT_GT(one, 2 * two + 0.3);
}

TEST(Heads, WeightsStayInTheirDocument) {
  constexpr int64_t t = 5, c = 8;
  Heads heads({.channels = c, .heads = 2, .head_size = 4});
  Parameters parameters(heads);
  testing::randomize(parameters, 7);
  SerialExecutor executor;
  Arena saved(1 << 16), scratch(1 << 20);
  const Context context{executor, scratch};
  Heads::State state = heads.plan(saved, 1, t);
  const Tensor x = random_tensor({t, c}, 8);
  const int32_t documents[t] = {1, 1, 2, 2, 2};
  heads.forward(context, 1, t, x, state, {.documents = documents});
  Tensor weights({t, t});
  heads.weights(context, 0, 1, 1, t, state, weights, {.documents = documents});
  for (int64_t i = 0; i < t; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < t; ++j) {
      const float weight = weights.f32()[i * t + j];
      EXPECT_EQ(weight > 0, j <= i && documents[i] == documents[j]) << i << " " << j;
      sum += weight;
    }
    EXPECT_NEAR(sum, 1, 1e-6);
  }
}

TEST(Head, LayersDropDifferentWeights) {
  constexpr int64_t t = 16, c = 8;
  const Tensor x = random_tensor({1, t, c}, 9);
  const auto run = [&](int64_t layer) {
    Head head({.channels = c, .head_size = 4, .dropout = 0.5f, .layer = layer});
    Parameters parameters(head);
    parameters.initialize(1);
    SerialExecutor executor;
    Session session(head, executor, 1, t);
    session.context().training = true;
    Tensor y({1, t, 4});
    head.forward(session.context(), x, y, session.state());
    return std::vector<float>(y.f32(), y.f32() + y.elements());
  };
  EXPECT_EQ(run(0), run(0));
  EXPECT_NE(run(0), run(1));
}

TEST(Heads, RefusesSizesThatCannotBe) {
  EXPECT_THROW(Heads({.channels = 8, .heads = 4, .kv_heads = 3, .head_size = 2}), Error);
  EXPECT_THROW(Heads({.channels = 8, .heads = 0, .head_size = 2}), Error);
  EXPECT_THROW(Heads({.channels = 8, .heads = 1, .head_size = 2, .dropout = 1}), Error);
  Head head({.channels = 8, .head_size = 4});
  Parameters parameters(head);
  SerialExecutor executor;
  Session session(head, executor, 2, 3);
  Tensor x({2, 3, 7}), y({2, 3, 4});
  testing::expect_error(ErrorKind::kUse, {"(2, 3, 7) where (B, T, 8)"},
                        [&] { head.forward(session.context(), x, y, session.state()); });
}

}  // namespace
}  // namespace tril
