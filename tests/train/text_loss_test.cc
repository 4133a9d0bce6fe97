#include "tril/train/text_loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/expect_error.h"
#include "tril/base/random.h"
#include "tril/tensor/tensor.h"

namespace tril {
namespace {

constexpr int64_t kVocabulary = 11, kContext = 8;

struct SmallModel {
  explicit SmallModel(const char* architecture)
      : config(make(architecture)), model(config), parameters(model) {
    parameters.initialize(3);
    // Away from the small first weights, so that what a token sees matters.
    for (const auto& item : parameters.items())
      for (float& w : std::span(item.weight->value.f32(), static_cast<size_t>(item.info.shape.elements())))
        w *= 8;
  }
  static TransformerConfig make(const char* architecture) {
    TransformerConfig c{
        .vocabulary = kVocabulary, .context = kContext, .channels = 16, .layers = 2, .heads = 2};
    c.set_architecture(architecture);
    return c.resolved();
  }
  TransformerConfig config;
  Transformer model;
  Parameters parameters;
};

std::vector<int32_t> some_tokens(int64_t count, uint64_t seed) {
  const RandomStream random(seed, "tokens");
  std::vector<int32_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(static_cast<int32_t>(random.below(i, kVocabulary)));
  return out;
}

// -log p(tokens[at] | tokens[begin .. at)), by a model run on these alone.
double loss_of(SmallModel& m, const std::vector<int32_t>& tokens, int64_t begin, int64_t at) {
  SerialExecutor executor;
  const int64_t time = at - begin;
  const std::vector<int32_t> targets(static_cast<size_t>(time), 0);
  Session session(m.model, executor, 1, time, false);
  session.context().training = false;
  const Batch batch{.batch = 1,
                    .time = time,
                    .tokens = tokens.data() + begin,
                    .targets = targets.data(),
                    .counted_targets = time};
  Tensor logits({1, kVocabulary});
  m.model.logits(session.context(), batch, session.state(), logits.view(), /*last_only=*/true);
  double sum = 0;
  for (int64_t v = 0; v < kVocabulary; ++v) sum += std::exp(static_cast<double>(logits.f32()[v]));
  return std::log(sum) - logits.f32()[tokens[at]];
}

// Window k begins at k stride; a token belongs to the first window that reaches it.
double expected(SmallModel& m, const std::vector<int32_t>& tokens, int64_t context, int64_t stride) {
  double sum = 0;
  for (int64_t at = 1; at < static_cast<int64_t>(tokens.size()); ++at) {
    const int64_t window = at <= context ? 0 : (at - context + stride - 1) / stride;
    sum += loss_of(m, tokens, window * stride, at);
  }
  return sum;
}

TEST(TextLoss, IsThatOfEachTokenFromItsWindow) {
  for (const char* architecture : {"gpt", "llama"}) {
    SmallModel m(architecture);
    SerialExecutor executor;
    for (const auto& [context, stride] :
         {std::pair<int64_t, int64_t>{8, 4}, {8, 8}, {8, 1}, {5, 3}, {1, 1}}) {
      TextLoss loss(m.model, executor, {.context = context, .stride = stride, .batch = 3});
      double sum = 0;
      int64_t tokens = 0;
      for (const int64_t length : {1, 2, 30, 3, 0, 8, 9, 17, 2, 2}) {
        const std::vector<int32_t> document = some_tokens(length, static_cast<uint64_t>(length));
        loss.add(document);
        loss.end_document();
        sum += expected(m, document, context, stride);
        tokens += std::max<int64_t>(length - 1, 0);
      }
      EXPECT_NEAR(loss.nats(), sum, 1e-5 * sum) << architecture << " " << context << " " << stride;
      EXPECT_EQ(loss.tokens(), tokens);
    }
  }
}

TEST(TextLoss, DoesNotDependOnPiecesOrThreads) {
  SmallModel m("gpt");
  const std::vector<int32_t> document = some_tokens(200, 1);
  std::vector<double> sums;
  for (const size_t piece : {200, 1, 7}) {
    ThreadPool executor(piece == 7 ? 3 : 1);
    TextLoss loss(m.model, executor, {.stride = 3, .batch = 4});
    for (size_t i = 0; i < document.size(); i += piece)
      loss.add(std::span(document).subspan(i, std::min(piece, document.size() - i)));
    loss.end_document();
    sums.push_back(loss.nats());
    EXPECT_EQ(loss.tokens(), 199);
  }
  EXPECT_EQ(sums[0], sums[1]);
  EXPECT_EQ(sums[0], sums[2]);
}

TEST(TextLoss, RefusesWhatTheModelCannotDo) {
  SmallModel m("gpt");
  SerialExecutor executor;
  testing::expect_error(ErrorKind::kUse, {"context of 9", "model's 8"},
                        [&] { TextLoss(m.model, executor, {.context = 9}); });
  testing::expect_error(ErrorKind::kUse, {"stride of 5", "context of 4"},
                        [&] { TextLoss(m.model, executor, {.context = 4, .stride = 5}); });
  testing::expect_error(ErrorKind::kUse, {"batch of 1000000", "1 to 8192"},
                        [&] { TextLoss(m.model, executor, {.batch = 1'000'000}); });
  TextLoss loss(m.model, executor);
  loss.add(std::vector<int32_t>{1, 2, 99});
  loss.end_document();
  testing::expect_error(ErrorKind::kUse, {"99"}, [&] { loss.nats(); });
}

}  // namespace
}  // namespace tril
