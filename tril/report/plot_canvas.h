// A chart drawn with characters: curves as Braille dots (2 x 4 a cell) or ASCII points (1 x 2 a cell), and
// characters that stand in a cell of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tril {

struct PlotRange {
  double low = 0, high = 1;
};

class PlotCanvas {
 public:
  // Cells; the ranges are those of the outermost dots.
  PlotCanvas(int64_t columns, int64_t rows, bool utf8, PlotRange x, PlotRange y);

  // A straight line between two points of the ranges.
  void line(double x0, double y0, double x1, double y1);
  void mark(double x, double y, char character);
  int64_t column_of(double x) const;
  int64_t row_of(double y) const;  // 0: the highest
  std::string row(int64_t row) const;

 private:
  void dot(double x, double y);  // in dots, y from the top

  const int64_t columns_, rows_;
  const bool utf8_;
  const int64_t across_, down_;  // dots of a cell
  const PlotRange x_, y_;
  std::vector<uint8_t> dots_;  // (rows, columns): a bit a dot
  std::string marks_;          // (rows, columns): 0 where there is none
};

// Round numbers within a range, at most about `count`: multiples of 1, 2 or 5 times a power of ten.
std::vector<double> round_ticks(PlotRange range, int64_t count);

}  // namespace tril
