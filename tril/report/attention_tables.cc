// JSON and CSV, written head by head: all weights of a large model would not fit in memory as a Json value.
#include <fmt/format.h>

#include "tril/report/attention_report.h"
#include "tril/report/token_text.h"

namespace tril {
namespace {

// Calls body(layer, head, weights) for each map, layer by layer.
template <class Body>
void for_each_map(const AttentionReport& report, AttentionProbe& probe, const Body& body) {
  for (const int64_t layer : report.layers)
    for (const int64_t head : report.heads) body(layer, head, probe.weights(layer, head));
}

}  // namespace

void write_attention_json(const AttentionReport& report, AttentionProbe& probe, ReportSink sink) {
  std::string tokens;
  for (const std::string& token : report.tokens)
    tokens += (tokens.empty() ? "" : ",") + json_string(readable_bytes(token));
  sink(fmt::format(
      "{{\"model\":{},\"layers\":[{}],\"heads\":[{}],\"ids\":[{}],\n\"tokens\":[{}],\n\"weights\":[",
      json_string(readable_bytes(report.model)), fmt::join(report.layers, ","), fmt::join(report.heads, ","),
      fmt::join(report.ids, ","), tokens));
  const int64_t time = probe.time();
  bool first = true;
  for_each_map(report, probe, [&](int64_t layer, int64_t head, const float* weights) {
    fmt::memory_buffer out;
    const auto to = std::back_inserter(out);
    fmt::format_to(to, "{}\n{{\"layer\":{},\"head\":{},\"rows\":[", first ? "" : ",", layer, head);
    first = false;
    for (int64_t i = 0; i < time; ++i) {
      const float* const row = weights + i * time;
      fmt::format_to(to, "{}[{}]", i > 0 ? ",\n" : "", fmt::join(row, row + i + 1, ","));
    }
    fmt::format_to(to, "]}}");
    sink({out.data(), out.size()});
  });
  sink("\n]}\n");
}

void write_attention_csv(const AttentionReport& report, AttentionProbe& probe, ReportSink sink) {
  sink("layer,head,query,key,weight\n");
  const int64_t time = probe.time();
  for_each_map(report, probe, [&](int64_t layer, int64_t head, const float* weights) {
    fmt::memory_buffer out;
    const auto to = std::back_inserter(out);
    for (int64_t i = 0; i < time; ++i)
      for (int64_t j = 0; j <= i; ++j)
        fmt::format_to(to, "{},{},{},{},{}\n", layer, head, i, j, weights[i * time + j]);
    sink({out.data(), out.size()});
  });
}

}  // namespace tril
