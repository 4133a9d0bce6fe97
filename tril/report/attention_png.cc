// The one place that knows libpng.
#include <png.h>

#include <algorithm>
#include <cmath>

#include "tril/base/sizes.h"
#include "tril/report/attention_report.h"

namespace tril {
namespace {

constexpr int kColors = 256;
constexpr uint8_t kGapIndex = kColors - 1;  // of the palette; the others are weights

uint8_t index_of(float weight) {
  return static_cast<uint8_t>(std::lround((kGapIndex - 1) * std::sqrt(std::clamp(weight, 0.0f, 1.0f))));
}

Color color_of(uint8_t index) {
  const double place = index / static_cast<double>(kGapIndex - 1) * (kLightHeat.size() - 1);
  const size_t k = std::min(static_cast<size_t>(place), kLightHeat.size() - 2);
  Color color;
  for (size_t c = 0; c < 3; ++c) {
    const double from = kLightHeat[k][c], to = kLightHeat[k + 1][c];
    color[c] = static_cast<uint8_t>(std::lround(from + (place - static_cast<double>(k)) * (to - from)));
  }
  return color;
}

std::array<uint8_t, 3 * kColors> palette() {
  std::array<uint8_t, 3 * kColors> colors;
  for (int i = 0; i < kGapIndex; ++i) {
    const auto color = color_of(static_cast<uint8_t>(i));
    std::copy(color.begin(), color.end(), colors.begin() + 3 * i);
  }
  std::fill_n(colors.end() - 3, 3, uint8_t{150});
  return colors;
}

// The map with its upper left corner at `out`, in an image of `width` pixels a row.
void paint(const float* weights, int64_t time, int64_t scale, uint8_t* out, int64_t width) {
  for (int64_t y = 0; y < time * scale; ++y) {
    const float* const row = weights + y / scale * time;
    for (int64_t x = 0; x < time * scale; ++x) out[y * width + x] = index_of(row[x / scale]);
  }
}

struct Size {
  int64_t width, height;
};

Size size_of(const AttentionReport& report) {
  const int64_t step = report.time() * png_scale(report.time()) + kPngGap;
  const auto side = [&](const std::vector<int64_t>& maps) {
    return checked_add(checked_multiply(step, static_cast<int64_t>(maps.size())), kPngGap);
  };
  return {.width = side(report.heads), .height = side(report.layers)};
}

std::string encode(const std::vector<uint8_t>& pixels, int64_t width, int64_t height) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = PNG_FORMAT_RGB_COLORMAP;
  image.colormap_entries = kColors;
  const auto colors = palette();
  std::string file(PNG_IMAGE_PNG_SIZE_MAX(image), '\0');
  png_alloc_size_t bytes = file.size();
  const int done = png_image_write_to_memory(&image, file.data(), &bytes, /*convert_to_8_bit=*/0,
                                             pixels.data(), static_cast<png_int_32>(width), colors.data());
  check_data(done != 0, "attention: a picture of {} x {} pixels cannot be made: {}", width, height,
             image.message);
  file.resize(bytes);
  return file;
}

}  // namespace

int64_t png_scale(int64_t time) {
  constexpr int64_t kLeastSide = 128;  // of a map, in pixels
  return divide_up(kLeastSide, time);
}

Color heat_color(float weight) { return color_of(index_of(weight)); }

void check_attention_png(const AttentionReport& report) {
  const auto [width, height] = size_of(report);
  check_use(
      checked_multiply(width, height) <= kMostPngPixels,
      "attention: the picture would have {} x {} pixels ({} heads, {} tokens); choose a layer or head, or "
      "give a shorter text",
      width, height, report.maps(), report.time());
}

void write_attention_png(const AttentionReport& report, AttentionProbe& probe, ReportSink sink) {
  check_attention_png(report);
  const auto [width, height] = size_of(report);
  const int64_t time = probe.time(), scale = png_scale(time), step = time * scale + kPngGap;
  std::vector<uint8_t> pixels(static_cast<size_t>(width * height), kGapIndex);
  int64_t y = kPngGap;
  for (const int64_t layer : report.layers) {
    int64_t x = kPngGap;
    for (const int64_t head : report.heads) {
      paint(probe.weights(layer, head), time, scale, pixels.data() + y * width + x, width);
      x += step;
    }
    y += step;
  }
  sink(encode(pixels, width, height));
}

}  // namespace tril
