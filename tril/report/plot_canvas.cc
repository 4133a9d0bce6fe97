#include "tril/report/plot_canvas.h"

#include <algorithm>
#include <cmath>

namespace tril {
namespace {

// Bits of a Braille character by column and row of its dots (Unicode 14, block 2800).
constexpr uint8_t kBraille[2][4] = {{0x01, 0x02, 0x04, 0x40}, {0x08, 0x10, 0x20, 0x80}};
constexpr std::string_view kPoints = " '.:";  // none, upper, lower, both

// Where `value` lies among `count` dots.
double place(double value, PlotRange range, int64_t count) {
  const double part = (value - range.low) / (range.high - range.low);
  return std::clamp(part, 0.0, 1.0) * static_cast<double>(count - 1);
}

void append_utf8(std::string& out, uint32_t c) {  // of three bytes
  for (const uint32_t byte : {0xE0 | c >> 12, 0x80 | (c >> 6 & 0x3F), 0x80 | (c & 0x3F)})
    out += static_cast<char>(byte);
}

}  // namespace

PlotCanvas::PlotCanvas(int64_t columns, int64_t rows, bool utf8, PlotRange x, PlotRange y)
    : columns_(columns),
      rows_(rows),
      utf8_(utf8),
      across_(utf8 ? 2 : 1),
      down_(utf8 ? 4 : 2),
      x_(x),
      y_(y),
      dots_(static_cast<size_t>(columns * rows)),
      marks_(static_cast<size_t>(columns * rows), '\0') {}

void PlotCanvas::dot(double x, double y) {
  const auto column = std::llround(x), row = std::llround(y);
  const uint8_t bit =
      utf8_ ? kBraille[column % across_][row % down_] : static_cast<uint8_t>(1 << row % down_);
  dots_[static_cast<size_t>(row / down_ * columns_ + column / across_)] |= bit;
}

void PlotCanvas::line(double x0, double y0, double x1, double y1) {
  const double fromx = place(x0, x_, columns_ * across_), tox = place(x1, x_, columns_ * across_);
  const double bottom = static_cast<double>(rows_ * down_ - 1);
  const double fromy = bottom - place(y0, y_, rows_ * down_), toy = bottom - place(y1, y_, rows_ * down_);
  const double steps = std::max(1.0, std::ceil(std::max(std::abs(tox - fromx), std::abs(toy - fromy))));
  for (double i = 0; i <= steps; ++i)
    dot(fromx + i / steps * (tox - fromx), fromy + i / steps * (toy - fromy));
}

int64_t PlotCanvas::column_of(double x) const {
  return std::llround(place(x, x_, columns_ * across_)) / across_;
}

int64_t PlotCanvas::row_of(double y) const {
  return rows_ - 1 - std::llround(place(y, y_, rows_ * down_)) / down_;
}

void PlotCanvas::mark(double x, double y, char character) {
  marks_[static_cast<size_t>(row_of(y) * columns_ + column_of(x))] = character;
}

std::string PlotCanvas::row(int64_t row) const {
  std::string out;
  for (auto cell = static_cast<size_t>(row * columns_); cell < static_cast<size_t>((row + 1) * columns_);
       ++cell) {
    if (marks_[cell] != '\0')
      out += marks_[cell];
    else if (utf8_ && dots_[cell] != 0)
      append_utf8(out, 0x2800u + dots_[cell]);
    else
      out += utf8_ ? ' ' : kPoints[dots_[cell]];
  }
  return out.substr(0, out.find_last_not_of(' ') + 1);
}

std::vector<double> round_ticks(PlotRange range, int64_t count) {
  const double least = (range.high - range.low) / static_cast<double>(std::max<int64_t>(count, 1));
  double step = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {2.0, 2.5, 2.0})  // 1, 2, 5, 10
    if (step < least * (1 - 1e-9)) step *= factor;
  std::vector<double> ticks;
  const double first = std::ceil(range.low / step - 1e-9);
  for (int64_t i = 0; i <= 2 * count && (first + static_cast<double>(i)) * step <= range.high + 1e-9 * step;
       ++i)
    ticks.push_back((first + static_cast<double>(i)) * step);
  return ticks;
}

}  // namespace tril
