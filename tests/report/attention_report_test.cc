// Each kind of file says what the probe says.
#include "tril/report/attention_report.h"

#include <png.h>

#include <cmath>
#include <sstream>

#include "tests/report/report_fixture.h"
#include "tests/support/expect_error.h"
#include "tril/containers/json.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::kTime;
using testing::ReportFixture;

TEST(AttentionReport, JsonIsExact) {
  ReportFixture f;
  f.report.layers = {0, 2};
  f.report.heads = {1, 3};
  f.report.tokens[1] = "a\"b\n\xe2\x82";  // two thirds of a euro sign
  const Json json = parse_json(f.text_of(write_attention_json));
  ASSERT_FALSE(json.is_discarded());
  EXPECT_EQ(json["model"], "runs/<small>");
  EXPECT_EQ(json["ids"], Json(f.report.ids));
  EXPECT_EQ(json["tokens"].size(), static_cast<size_t>(kTime));
  EXPECT_EQ(json["tokens"][1], "a\"b\n\\xe2\\x82");
  ASSERT_EQ(json["weights"].size(), 4u);
  for (const Json& map : json["weights"]) {
    const float* const w = f.probe.weights(map["layer"], map["head"]);
    ASSERT_EQ(map["rows"].size(), static_cast<size_t>(kTime));
    for (int64_t i = 0; i < kTime; ++i) {
      const auto row = map["rows"][static_cast<size_t>(i)].get<std::vector<float>>();
      ASSERT_EQ(row, std::vector<float>(w + i * kTime, w + i * kTime + i + 1));
    }
  }
  EXPECT_EQ(json["weights"][2]["layer"], 2);
  EXPECT_EQ(json["weights"][3]["head"], 3);
}

TEST(AttentionReport, WhatSinksTakeIsSaid) {
  const std::string word = "attention sinks";
  ReportFixture plain;
  EXPECT_FALSE(parse_json(plain.text_of(write_attention_json))["weights"][0].contains("sink"));
  EXPECT_EQ(plain.text_of(write_attention_html).find(word), std::string::npos);

  TransformerConfig config = testing::report_config();
  config.attention.sinks = true;
  ReportFixture f{.config = config};
  EXPECT_NE(f.text_of(write_attention_html).find(word), std::string::npos);
  const Json json = parse_json(f.text_of(write_attention_json));
  ASSERT_EQ(json["weights"].size(), 12u);
  for (const Json& map : json["weights"]) {
    const auto sink = map["sink"].get<std::vector<float>>();
    EXPECT_EQ(sink, f.probe.sink_weights(map["layer"], map["head"]));
    for (size_t i = 0; i < kTime; ++i) {
      double sum = sink[i];
      for (const double w : map["rows"][i]) sum += w;
      ASSERT_NEAR(sum, 1, 1e-5);
      ASSERT_GT(sink[i], 0);
    }
  }
}

TEST(AttentionReport, CsvAgreesWithJson) {
  ReportFixture f;
  const Json json = parse_json(f.text_of(write_attention_json));
  std::istringstream csv(f.text_of(write_attention_csv));
  std::string line;
  ASSERT_TRUE(std::getline(csv, line));
  EXPECT_EQ(line, "layer,head,query,key,weight");
  for (const Json& map : json["weights"]) {
    for (size_t i = 0; i < map["rows"].size(); ++i) {
      for (size_t j = 0; j <= i; ++j) {
        ASSERT_TRUE(std::getline(csv, line));
        const std::string start =
            fmt::format("{},{},{},{},", map["layer"].get<int>(), map["head"].get<int>(), i, j);
        ASSERT_EQ(line.substr(0, start.size()), start);
        ASSERT_EQ(std::stof(line.substr(start.size())), map["rows"][i][j].get<float>()) << line;
      }
    }
  }
  EXPECT_FALSE(std::getline(csv, line));
}

TEST(AttentionReport, PngShowsEachWeight) {
  ReportFixture f;
  f.report.layers = {0, 2};
  f.report.heads = {1, 2, 3};
  const std::string file = f.text_of(write_attention_png);
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  ASSERT_TRUE(png_image_begin_read_from_memory(&image, file.data(), file.size())) << image.message;
  image.format = PNG_FORMAT_RGB;
  std::vector<uint8_t> pixels(PNG_IMAGE_SIZE(image));
  ASSERT_TRUE(png_image_finish_read(&image, nullptr, pixels.data(), 0, nullptr)) << image.message;
  const int64_t side = kTime * png_scale(kTime);
  EXPECT_GE(side, 128);
  ASSERT_EQ(image.width, 3 * side + 4 * kPngGap);
  ASSERT_EQ(image.height, 2 * side + 3 * kPngGap);
  const auto pixel = [&](int64_t x, int64_t y) {
    const uint8_t* const p = pixels.data() + 3 * (y * image.width + x);
    return std::array<uint8_t, 3>{p[0], p[1], p[2]};
  };
  for (int64_t row = 0; row < 2; ++row) {
    for (int64_t column = 0; column < 3; ++column) {
      const float* const w = f.probe.weights(f.report.layers[static_cast<size_t>(row)], column + 1);
      const int64_t top = kPngGap + row * (side + kPngGap), left = kPngGap + column * (side + kPngGap);
      for (int64_t y = 0; y < side; ++y) {
        const int64_t i = y / png_scale(kTime);
        for (int64_t x = 0; x < side; ++x)
          ASSERT_EQ(pixel(left + x, top + y), heat_color(w[i * kTime + x / png_scale(kTime)]))
              << x << " " << y;
      }
      EXPECT_EQ(pixel(left - 1, top), pixel(0, 0)) << "the gap";
    }
  }
  EXPECT_EQ(heat_color(0), (std::array<uint8_t, 3>{255, 255, 255}));
  EXPECT_NE(heat_color(0.001f), heat_color(0)) << "a small weight shows";
  EXPECT_NE(heat_color(1), heat_color(0.9f));
  EXPECT_NE(pixel(0, 0), heat_color(0));
}

// What stands between `before` and `after`.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before) + before.size();
  return text.substr(begin, text.find(after, begin) - begin);
}

TEST(AttentionReport, PageHoldsTheLowerTriangles) {
  ReportFixture f;
  const std::string page = f.text_of(write_attention_html);
  const Json data = parse_json(between(page, "<script type=\"application/json\" id=\"data\">", "</script>"));
  ASSERT_FALSE(data.is_discarded());
  EXPECT_EQ(data["layers"], Json({0, 1, 2}));
  EXPECT_EQ(data["heads"], Json({0, 1, 2, 3}));
  for (const size_t k : {0, 2, 4})  // where the picture's steps of 1/254 meet those of the page
    EXPECT_EQ(data["light"][k], Json(heat_color(static_cast<float>(k * k) / 16))) << k;
  EXPECT_EQ(data["dark"], Json(kDarkHeat));
  ASSERT_EQ(data["maps"].size(), 12u);
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t m = 0; m < 12; ++m) {
    const std::string text = data["maps"][m];
    std::vector<uint8_t> bytes;
    for (size_t i = 0; i < text.size(); i += 4) {
      uint32_t group = 0;
      for (size_t k = 0; k < 4; ++k)
        group = group << 6 | (text[i + k] == '=' ? 0u : static_cast<uint32_t>(kDigits.find(text[i + k])));
      for (int k = 0; k < 3; ++k) bytes.push_back(static_cast<uint8_t>(group >> (16 - 8 * k)));
    }
    bytes.resize(bytes.size() - static_cast<size_t>(std::count(text.begin(), text.end(), '=')));
    ASSERT_EQ(bytes.size(), static_cast<size_t>(kTime * (kTime + 1) / 2));
    const float* const w = f.probe.weights(static_cast<int64_t>(m / 4), static_cast<int64_t>(m % 4));
    size_t at = 0;
    for (int64_t i = 0; i < kTime; ++i)
      for (int64_t j = 0; j <= i; ++j) ASSERT_NEAR(std::pow(bytes[at++] / 255.0, 2), w[i * kTime + j], 0.004);
  }
}

TEST(AttentionReport, NothingOfATextBecomesMarkup) {
  ReportFixture f;
  f.report.model = "</title><script>alert(1)</script>";
  f.report.tokens = {"</script>", "<img src=x onerror=alert(1)>",
                     "\"'&amp;",  "http://example.org",
                     "<!--",      std::string("\0\x1b[1m", 5),
                     "\xe2\x82",  "\xac",
                     "\n",        "\xe2\x80\xae",
                     "\xc3\xa9",  "]]>"};
  f.report.tokens.resize(kTime, "</div>");
  const std::string page = f.text_of(write_attention_html);
  EXPECT_EQ(page.find("alert(1)</script>"), page.npos);
  EXPECT_EQ(page.find("<img"), page.npos);
  EXPECT_EQ(page.find("<!--"), page.npos);
  EXPECT_EQ(page.find('\0'), page.npos);
  EXPECT_EQ(page.find('\x1b'), page.npos);
  EXPECT_EQ(page.find("\xe2\x80\xae"), page.npos) << "a character that turns the order around";
  const std::string text = between(page, "<div id=\"text\">", "</div>");
  for (const char* shown :
       {">&lt;/script&gt;<", ">&quot;&#39;&amp;amp;<", ">\\x00\\x1b[1m<", ">\\xe2\\x82<", ">\\xac<",
        ">\u21b5\n<", ">\\xe2\\x80\\xae<", ">\xc3\xa9<", ">]]&gt;<", ">&lt;/div&gt;<"})
    EXPECT_NE(text.find(shown), text.npos) << shown;
  // Nothing is fetched: no element or rule of the page names another file.
  std::string own = page;
  own.replace(own.find(text), text.size(), "");
  for (const char* word :
       {"http:", "https:", "//www", " src=", "href=", "url(", "@import", "fetch(", "XMLHttp"})
    EXPECT_EQ(own.find(word), own.npos) << word;
  EXPECT_NE(page.find("default-src 'none'"), page.npos);
}

// A head of many tokens is not in memory as text: no piece is much longer than 64 KiB and a row.
TEST(AttentionReport, TablesComeInPieces) {
  constexpr int64_t kLong = 300;
  TransformerConfig config = testing::report_config();
  config.context = kLong;
  const testing::Model model(config);
  const testing::RandomBatch text(1, kLong, 40);
  ThreadPool pool(2);
  AttentionProbe probe(model.transformer, pool, text.tokens);
  const AttentionReport report{.model = "long",
                               .ids = text.tokens,
                               .tokens = std::vector<std::string>(kLong, "x"),
                               .layers = {1},
                               .heads = {2}};
  for (const auto write : {write_attention_json, write_attention_csv}) {
    size_t longest = 0, all = 0;
    write(report, probe, [&](std::string_view piece) {
      longest = std::max(longest, piece.size());
      all += piece.size();
    });
    EXPECT_GT(all, 300'000u);
    EXPECT_LT(longest, 75'000u);
  }
}

TEST(AttentionReport, TooLargeIsSaidWithTheSize) {
  ReportFixture f;
  f.report.heads.assign(100'000, 0);  // as if the model had so many
  expect_error(ErrorKind::kUse, {"93 MB", "300000 heads"}, [&] { check_attention_html(f.report); });
  expect_error(ErrorKind::kUse, {"pixels", "300000 heads"}, [&] { check_attention_png(f.report); });
  expect_error(ErrorKind::kUse, {"93 MB", "300000 heads", "21 tokens", "choose a layer"},
               [&] { f.text_of(write_attention_html); });
  expect_error(ErrorKind::kUse, {"pixels", "choose a layer"}, [&] { f.text_of(write_attention_png); });
}

}  // namespace
}  // namespace tril
