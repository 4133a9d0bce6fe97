#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tril/report/attention_page.h"
#include "tril/report/attention_report.h"
#include "tril/report/page.h"
#include "tril/report/token_text.h"

namespace tril {
namespace {

constexpr const char* kSinks =
    "<p>This model has attention sinks: what a token's weights lack of 100 % goes to its head's sink, which\n"
    "stands for no token and is not drawn.</p>\n";

std::string base64(std::span<const uint8_t> bytes) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t count = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < count ? bytes[i + k] : 0u);
    for (size_t k = 0; k < 4; ++k) out += k <= count ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

// The lower triangle as 8-bit square roots: fine steps where weights are small, and just what a colour shows.
std::vector<uint8_t> quantised(const float* weights, int64_t time) {
  std::vector<uint8_t> bytes;
  bytes.reserve(static_cast<size_t>(time * (time + 1) / 2));
  for (int64_t i = 0; i < time; ++i)
    for (int64_t j = 0; j <= i; ++j)
      bytes.push_back(
          static_cast<uint8_t>(std::lround(255 * std::sqrt(std::clamp(weights[i * time + j], 0.0f, 1.0f)))));
  return bytes;
}

std::string plural(int64_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

// Of the maps in base64.
int64_t data_bytes(const AttentionReport& report) {
  const int64_t triangle = checked_multiply(report.time(), report.time() + 1) / 2;
  return checked_multiply(report.maps(), divide_up(triangle, 3) * 4);
}

std::string text_section(const AttentionReport& report) {
  std::string html;
  for (size_t i = 0; i < report.tokens.size(); ++i) {
    html += fmt::format("<span class=\"token\" data-id=\"{}\">{}</span>", report.ids[i],
                        html_text(report.tokens[i]));
  }
  return html;
}

}  // namespace

void check_attention_html(const AttentionReport& report) {
  const int64_t bytes = data_bytes(report);
  check_use(
      bytes <= kMostPageBytes,
      "attention: the page would have {} MB ({} heads, {} tokens), more than browsers like; choose a layer "
      "or head, give a shorter text, or write csv or json",
      (bytes + 999'999) / 1'000'000, report.maps(), report.time());
}

void write_attention_html(const AttentionReport& report, AttentionProbe& probe, ReportSink sink) {
  check_attention_html(report);
  const int64_t time = probe.time();
  const std::string name = html_text(readable_bytes(report.model));
  sink(kPageHead);
  sink(fmt::format("<title>attention of {}</title>\n<style>{}{}</style>\n</head>\n<body>\n", name, kPageStyle,
                   kAttentionStyle));
  sink(fmt::format(
      "<header><h1>Attention of {}</h1>\n"
      "<p>{}, {}, {} each. Colour says how strongly a token looks at an earlier one.</p>\n"
      "{}</header>\n"
      "<main>\n<div class=\"column\">\n<section>\n"
      "<div class=\"bar\"><h2>The text, as read by <span class=\"which\"></span></h2></div>\n"
      "<noscript><p>This page draws with JavaScript, which is off here.</p></noscript>\n<div id=\"text\">",
      name, plural(time, "token"), plural(static_cast<int64_t>(report.layers.size()), "layer"),
      plural(static_cast<int64_t>(report.heads.size()), "head"), probe.has_sinks() ? kSinks : ""));
  sink(text_section(report));
  sink(fmt::format("</div>{}", kAttentionBody));
  sink(fmt::format(
      "<footer><p>The weights stand in this file, {:.0f} KB: of each map the lower triangle, 8 bits for the\n"
      "square root of a weight. What is shown is within 0.4 percentage points; --format json writes exact\n"
      "numbers.</p></footer>\n"
      "<script type=\"application/json\" id=\"data\">"
      "{{\"layers\":[{}],\"heads\":[{}],\"light\":{},\"dark\":{},\"maps\":[",
      std::ceil(static_cast<double>(data_bytes(report)) / 1000), fmt::join(report.layers, ","),
      fmt::join(report.heads, ","), kLightHeat, kDarkHeat));
  const char* separator = "\n\"";
  for (const int64_t layer : report.layers) {
    for (const int64_t head : report.heads) {
      sink(separator + base64(quantised(probe.weights(layer, head), time)) + "\"");
      separator = ",\n\"";
    }
  }
  sink(fmt::format("]}}</script>\n<script>{}</script>\n</body>\n</html>\n", kAttentionScript));
}

}  // namespace tril
