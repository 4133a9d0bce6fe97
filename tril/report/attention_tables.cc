// JSON and CSV, written row by row: all weights of a large model would not fit in memory as a Json value.
#include <fmt/format.h>

#include "tril/report/attention_report.h"
#include "tril/report/token_text.h"

namespace tril {
namespace {

// Hands pieces of some kilobytes on: a head of long texts is far larger as text than as numbers.
class Pieces {
 public:
  explicit Pieces(ReportSink sink) : sink_(sink) {}

  template <class... Values>
  void add(fmt::format_string<Values...> format, Values&&... values) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Values>(values)...);
    if (text_.size() >= 1 << 16) flush();
  }
  void flush() {
    sink_({text_.data(), text_.size()});
    text_.clear();
  }

 private:
  ReportSink sink_;
  fmt::memory_buffer text_;
};

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
  Pieces out(sink);
  out.add("{{\"model\":{},\"layers\":[{}],\"heads\":[{}],\"ids\":[{}],\n\"tokens\":[{}],\n\"weights\":[",
          json_string(readable_bytes(report.model)), fmt::join(report.layers, ","),
          fmt::join(report.heads, ","), fmt::join(report.ids, ","), tokens);
  const int64_t time = probe.time();
  const char* separator = "\n";
  for_each_map(report, probe, [&](int64_t layer, int64_t head, const float* weights) {
    out.add("{}{{\"layer\":{},\"head\":{},", separator, layer, head);
    if (probe.has_sinks()) out.add("\"sink\":[{}],\n", fmt::join(probe.sink_weights(layer, head), ","));
    out.add("\"rows\":[");
    separator = ",\n";
    for (int64_t i = 0; i < time; ++i) {
      const float* const row = weights + i * time;
      out.add("{}[{}]", i > 0 ? ",\n" : "", fmt::join(row, row + i + 1, ","));
    }
    out.add("]}}");
  });
  out.add("\n]}}\n");
  out.flush();
}

void write_attention_csv(const AttentionReport& report, AttentionProbe& probe, ReportSink sink) {
  Pieces out(sink);
  out.add("layer,head,query,key,weight\n");
  const int64_t time = probe.time();
  for_each_map(report, probe, [&](int64_t layer, int64_t head, const float* weights) {
    for (int64_t i = 0; i < time; ++i)
      for (int64_t j = 0; j <= i; ++j) out.add("{},{},{},{},{}\n", layer, head, i, j, weights[i * time + j]);
  });
  out.flush();
}

}  // namespace tril
