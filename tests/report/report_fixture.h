// A small random model, a text, and the reports of it as strings.
#pragma once

#include "tests/nn/model_fixture.h"
#include "tril/report/attention_report.h"

namespace tril::testing {

inline constexpr int64_t kLayers = 3, kHeads = 4, kTime = 21;

inline TransformerConfig report_config() {
  TransformerConfig c{.vocabulary = 40,
                      .context = 32,
                      .channels = 24,
                      .layers = kLayers,
                      .heads = kHeads,
                      .kv_heads = 2,
                      .head_size = 5};
  return c.resolved();
}

struct ReportFixture {
  TransformerConfig config = report_config();
  Model model{config};
  RandomBatch text{1, kTime, 40};
  ThreadPool pool{2};
  AttentionProbe probe{model.transformer, pool, text.tokens};
  AttentionReport report{.model = "runs/<small>",
                         .ids = text.tokens,
                         .tokens = std::vector<std::string>(kTime, "x"),
                         .layers = {0, 1, 2},
                         .heads = {0, 1, 2, 3}};

  std::string text_of(void (*write)(const AttentionReport&, AttentionProbe&, ReportSink)) {
    std::string all;
    write(report, probe, [&](std::string_view piece) { all += piece; });
    return all;
  }
};

}  // namespace tril::testing
