// The weights are those of the formula, in every layer and head.
#include "tril/report/attention_probe.h"

#include <cmath>

#include "tests/report/report_fixture.h"
#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::kHeads;
using testing::kLayers;
using testing::kTime;
using testing::Model;
using testing::ReportFixture;

// softmax(q k^T / sqrt(D)) of one head (T, T), from the stream that enters its block, in double.
std::vector<double> direct_weights(TransformerBlock& block, const float* stream, int64_t head) {
  const TransformerConfig c = testing::report_config();
  const int64_t channels = c.channels, d = c.head_size, group = c.heads / c.kv_heads;
  const float* const weight = block.attention.heads.qkv.weight.value.f32();
  const float* const bias = block.attention.heads.qkv.bias.value.f32();
  std::vector<double> query(kTime * d), key(kTime * d), out(kTime * kTime);
  for (int64_t t = 0; t < kTime; ++t) {
    const float* const x = stream + t * channels;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < channels; ++i) mean += x[i] / static_cast<double>(channels);
    for (int64_t i = 0; i < channels; ++i)
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(channels);
    for (int64_t k = 0; k < d; ++k) {
      const int64_t query_row = head * d + k, key_row = (c.heads + head / group) * d + k;
      double q = bias[query_row], s = bias[key_row];
      for (int64_t i = 0; i < channels; ++i) {
        const double normed = (x[i] - mean) / std::sqrt(variance + 1e-5) * block.ln1.weight.value.f32()[i] +
                              block.ln1.bias.value.f32()[i];
        q += normed * weight[query_row * channels + i];
        s += normed * weight[key_row * channels + i];
      }
      query[static_cast<size_t>(t * d + k)] = q;
      key[static_cast<size_t>(t * d + k)] = s;
    }
  }
  for (int64_t i = 0; i < kTime; ++i) {
    double sum = 0;
    for (int64_t j = 0; j <= i; ++j) {
      double dot = 0;
      for (int64_t k = 0; k < d; ++k)
        dot += query[static_cast<size_t>(i * d + k)] * key[static_cast<size_t>(j * d + k)];
      sum += out[static_cast<size_t>(i * kTime + j)] = std::exp(dot / std::sqrt(static_cast<double>(d)));
    }
    for (int64_t j = 0; j <= i; ++j) out[static_cast<size_t>(i * kTime + j)] /= sum;
  }
  return out;
}

TEST(AttentionProbe, WeightsAreTheFormulasInEveryHead) {
  ReportFixture f;
  Arena saved = Arena::dry();
  f.model.transformer.plan(saved, 1, kTime);
  saved = Arena(saved.peak());
  Transformer::State state = f.model.transformer.plan(saved, 1, kTime);
  Arena scratch(1 << 22);
  Tensor logits({kTime, 40});
  f.model.transformer.logits(Context{f.pool, scratch}, f.text.batch, state, logits);

  for (int64_t layer = 0; layer < kLayers; ++layer) {
    for (int64_t head = 0; head < kHeads; ++head) {
      const auto at = static_cast<size_t>(layer);
      const std::vector<double> expected =
          direct_weights(*f.model.transformer.blocks[at], state.streams[at].f32(), head);
      const float* const actual = f.probe.weights(layer, head);
      for (int64_t i = 0; i < kTime; ++i) {
        double sum = 0;
        for (int64_t j = 0; j < kTime; ++j) {
          const float w = actual[i * kTime + j];
          sum += w;
          ASSERT_NEAR(w, expected[static_cast<size_t>(i * kTime + j)], 2e-5)
              << "layer " << layer << ", head " << head << ", " << i << " to " << j;
        }
        ASSERT_NEAR(sum, 1, 1e-5);
      }
    }
  }
}

// With another formula than the forward pass had, rows would not sum to 1: the sums are the forward pass's.
TEST(AttentionProbe, EveryVariantOfAttention) {
  AttentionVariants turned{.positions = Positions::kRope, .qk_norm = true}, sinks{.sinks = true};
  AttentionVariants near{.positions = Positions::kAlibi, .window = 5, .softcap = 3};
  for (const AttentionVariants& variants : {turned, near, sinks}) {
    TransformerConfig config = testing::report_config();
    config.attention = variants;
    config.head_size = 6;
    Model model(config.resolved());
    const testing::RandomBatch text(1, kTime, 40);
    ThreadPool pool(2);
    AttentionProbe probe(model.transformer, pool, text.tokens);
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t head = 0; head < kHeads; ++head) {
        const float* const w = probe.weights(layer, head);
        for (int64_t i = 0; i < kTime; ++i) {
          double sum = 0;
          for (int64_t j = 0; j < kTime; ++j) {
            const float weight = w[i * kTime + j];
            sum += weight;
            const bool seen = j <= i && (variants.window == 0 || j > i - variants.window);
            ASSERT_EQ(weight > 0, seen) << i << " to " << j;
          }
          if (variants.sinks)
            ASSERT_LT(sum, 1);
          else
            ASSERT_NEAR(sum, 1, 1e-5);
        }
      }
    }
  }
}

TEST(AttentionProbe, TheSameForAnyThreadsAndInAnyOrder) {
  ReportFixture f;
  SerialExecutor serial;
  AttentionProbe other(f.model.transformer, serial, f.text.tokens);
  const float* w = f.probe.weights(2, 3);
  const std::vector<float> last(w, w + kTime * kTime);
  other.weights(0, 1);
  w = other.weights(2, 3);
  testing::expect_same_bits("weights", {w, kTime * kTime}, last);
}

TEST(AttentionProbe, SaysWhatCannotBe) {
  ReportFixture f;
  expect_error(ErrorKind::kUse, {"layer 3", "layers 0 to 2"}, [&] { f.probe.weights(3, 0); });
  expect_error(ErrorKind::kUse, {"head -1", "heads 0 to 3"}, [&] { f.probe.weights(0, -1); });
  const std::vector<int32_t> none, many(33), foreign = {1, 40};
  Transformer& model = f.model.transformer;
  expect_error(ErrorKind::kUse, {"no tokens"}, [&] { AttentionProbe probe(model, f.pool, none); });
  expect_error(ErrorKind::kUse, {"33 tokens", "context of 32"},
               [&] { AttentionProbe probe(model, f.pool, many); });
  expect_error(ErrorKind::kUse, {"token 40"}, [&] { AttentionProbe probe(model, f.pool, foreign); });
  model.blocks[1]->attention.heads.qkv.weight.value.f32()[0] = std::numeric_limits<float>::quiet_NaN();
  AttentionProbe damaged(model, f.pool, f.text.tokens);
  expect_error(ErrorKind::kNumerics, {"layer 1, head 0", "nan"}, [&] { damaged.weights(1, 0); });
}

}  // namespace
}  // namespace tril
