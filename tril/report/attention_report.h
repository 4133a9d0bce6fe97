// Attention weights as a file for people or programs. Query: the token that looks; key: the token looked at.
#pragma once

#include <string>

#include "tril/report/attention_probe.h"
#include "tril/report/heat.h"
#include "tril/report/report_sink.h"

namespace tril {

struct AttentionReport {
  std::string model;                // its name, for titles
  std::vector<int32_t> ids;         // (T)
  std::vector<std::string> tokens;  // (T): the bytes of each
  std::vector<int64_t> layers;      // those to show, ascending
  std::vector<int64_t> heads;
  int64_t time() const { return static_cast<int64_t>(ids.size()); }  // T
  int64_t maps() const { return static_cast<int64_t>(layers.size() * heads.size()); }
};

// One object: model, layers, heads, ids, tokens (a byte that is no whole character as \xNN), and `weights`:
// for each layer and head its rows, query i with the keys 0 to i, and in a model with sinks `sink`, what each
// query gives to none of them. Each number is the shortest that is this float.
void write_attention_json(const AttentionReport& report, AttentionProbe& probe, ReportSink sink);

// layer,head,query,key,weight; one line for each key up to the query.
void write_attention_csv(const AttentionReport& report, AttentionProbe& probe, ReportSink sink);

// A page that needs nothing but itself. Throws kUse with the size if it would exceed kMostPageBytes; the
// check alone needs sizes only.
inline constexpr int64_t kMostPageBytes = 64'000'000;
void check_attention_html(const AttentionReport& report);
void write_attention_html(const AttentionReport& report, AttentionProbe& probe, ReportSink sink);

// The maps side by side, a row for each layer, a column for each head, kPngGap pixels around each; a weight
// is a square of png_scale(T) pixels. Throws kUse with the size if it would have more than kMostPngPixels;
// again sizes are enough for the check.
inline constexpr int64_t kPngGap = 4;
inline constexpr int64_t kMostPngPixels = 100'000'000;
int64_t png_scale(int64_t time);
Color heat_color(float weight);
void check_attention_png(const AttentionReport& report);
void write_attention_png(const AttentionReport& report, AttentionProbe& probe, ReportSink sink);

}  // namespace tril
