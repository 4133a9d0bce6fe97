#include "tril/generate/text_streamer.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {

TextStreamer::TextStreamer(std::vector<std::string> stop_strings) : stops_(std::move(stop_strings)) {
  for (const std::string& stop : stops_) {
    check_use(!stop.empty(), "--stop: a stop string is empty; every text would end at once");
    check_use(!first_invalid_utf8(stop), "--stop '{}': not valid UTF-8", printable(stop));
  }
}

std::string TextStreamer::push(std::string_view bytes) {
  return stopped() ? std::string() : take(characters_.push(bytes));
}

std::string TextStreamer::finish() {
  if (stopped()) return {};
  std::string out = take(characters_.finish());
  if (!stopped()) out += held_;
  held_.clear();
  return out;
}

std::string TextStreamer::take(std::string_view text) {
  held_ += text;
  size_t begin = held_.size(), end = held_.npos;
  for (size_t s = 0; s < stops_.size(); ++s) {
    const size_t at = held_.find(stops_[s]);
    if (at == held_.npos) continue;
    const size_t its_end = at + stops_[s].size();
    if (its_end > end || (its_end == end && at >= begin)) continue;
    begin = at, end = its_end, stop_ = static_cast<int>(s);
  }
  if (!stopped()) {
    // The longest end of the text that a stop string begins with.
    for (const std::string& stop : stops_) {
      size_t most = std::min(stop.size() - 1, held_.size());
      while (most > 0 && !held_.ends_with(std::string_view(stop).substr(0, most))) --most;
      begin = std::min(begin, held_.size() - most);
    }
  }
  std::string out = held_.substr(0, begin);
  held_.erase(0, begin);
  if (stopped()) held_.clear();
  return out;
}

}  // namespace tril
