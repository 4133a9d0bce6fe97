// The weights are those of the formula, in every layer and head.
#include "tril/report/attention_probe.h"

#include "tests/reference/transformer.h"
#include "tests/report/report_fixture.h"
#include "tests/support/expect_error.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::kHeads;
using testing::kLayers;
using testing::kTime;
using testing::ReportFixture;

// Against the reference's plain loops in double, from the tokens on.
TEST(AttentionProbe, WeightsAreTheFormulasInEveryHeadOfEveryVariant) {
  const AttentionVariants plain, turned{.positions = Positions::kRope, .qk_norm = true}, sinks{.sinks = true},
      near{.positions = Positions::kAlibi, .window = 5, .softcap = 3};
  for (const AttentionVariants& variants : {plain, turned, sinks, near}) {
    TransformerConfig config = testing::report_config();
    config.attention = variants;
    config.head_size = 6;
    ReportFixture f{.config = config.resolved()};
    const testing::ReferenceTransformer<double> reference(f.config, f.model.values<double>());
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t head = 0; head < kHeads; ++head) {
        const auto expected = reference.weights(f.text.batch, layer, static_cast<size_t>(head));
        const float* const actual = f.probe.weights(layer, head);
        const std::vector<float> sink = f.probe.sink_weights(layer, head);
        ASSERT_EQ(sink.size(), variants.sinks ? kTime : 0u);
        for (size_t i = 0; i < kTime; ++i) {
          for (size_t j = 0; j < kTime; ++j) {
            const float w = actual[i * kTime + j];
            ASSERT_NEAR(w, expected[i][j], 2e-5)
                << "layer " << layer << ", head " << head << ", " << i << " to " << j;
            ASSERT_EQ(w > 0, expected[i][j] > 0) << i << " to " << j;
          }
          ASSERT_NEAR(variants.sinks ? sink[i] : 0, expected[i].back(), 2e-5) << i;
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
  expect_error(ErrorKind::kUse, {"head 4", "heads 0 to 3"}, [&] { f.probe.sink_weights(0, 4); });
  const std::vector<int32_t> none, many(33), foreign = {1, 40};
  Transformer& model = f.model.transformer;
  expect_error(ErrorKind::kUse, {"no tokens"}, [&] { AttentionProbe probe(model, f.pool, none); });
  expect_error(ErrorKind::kUse, {"33 tokens", "context of 32"},
               [&] { AttentionProbe probe(model, f.pool, many); });
  expect_error(ErrorKind::kUse, {"token 40"}, [&] { AttentionProbe probe(model, f.pool, foreign); });
  model.blocks[1]->attention.heads.qkv.weight.value.f32()[0] = std::numeric_limits<float>::quiet_NaN();
  AttentionProbe damaged(model, f.pool, f.text.tokens);
  expect_error(ErrorKind::kNumerics, {"layer 1, head 0", "nan"}, [&] { damaged.weights(1, 0); });

  TransformerConfig config = testing::report_config();
  config.attention.sinks = true;
  ReportFixture sinks{.config = config};
  sinks.model.transformer.blocks[2]->attention.heads.sinks.value.f32()[1] =
      std::numeric_limits<float>::infinity();
  expect_error(ErrorKind::kNumerics, {"layer 2, head 1", "its sink"},
               [&] { sinks.probe.sink_weights(2, 1); });
}

}  // namespace
}  // namespace tril
