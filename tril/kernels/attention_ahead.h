// Rows that will be needed soon, asked for while products run. Short heads are bound by memory otherwise: a
// head of 64 steps reads and writes for as long as it computes.
#pragma once

#include "tril/kernels/attention_plan.h"

namespace tril::attention {

class Ahead {
 public:
  // The rows [0, count) of a head.
  template <class Element>
  void add(const HeadRows<Element>& rows, int64_t batch, int64_t head, int64_t count, int64_t head_size) {
    if (count <= 0) return;
    constexpr auto kSize = static_cast<int64_t>(sizeof(Element));
    queue_[queued_++] = {reinterpret_cast<const char*>(rows.row(batch, 0, head)), rows.time_stride * kSize,
                         head_size * kSize, count};
  }

  // Asks for the next cache lines, into the second cache: the first has a tile to hold.
  void ask(int64_t lines) {
    for (; lines > 0 && at_ < queued_; --lines) {
      Rows& rows = queue_[at_];
      __builtin_prefetch(rows.row + byte_, 0, 2);
      byte_ += kLine;
      if (byte_ < rows.width) continue;
      byte_ = 0;
      rows.row += rows.stride;
      if (--rows.count == 0) ++at_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  struct Rows {
    const char* row;
    int64_t stride, width, count;
  };
  Rows queue_[8];
  int queued_ = 0, at_ = 0;
  int64_t byte_ = 0;
};

}  // namespace tril::attention
