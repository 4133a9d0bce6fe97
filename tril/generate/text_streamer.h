// TextStreamer: from the bytes of tokens to text that may be shown: whole characters, and nothing that may
// turn out to be the begin of a stop string.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tril/text/utf8.h"

namespace tril {

class TextStreamer {
 public:
  // Text ends before the first of these, wherever the borders of tokens lie. Throws kUse for an empty one and
  // for one that is no valid UTF-8.
  explicit TextStreamer(std::vector<std::string> stop_strings = {});

  // What may be shown now. Of stop strings that overlap the one that is complete first ends the text, the
  // longest of those that end at the same byte. Bytes that are no UTF-8 come out as U+FFFD.
  std::string push(std::string_view bytes);
  // The rest, when no more tokens come: what was held back is text after all. Nothing after a stop string.
  std::string finish();

  bool stopped() const { return stop_ >= 0; }
  // The one that ended the text; empty before.
  std::string_view stop_string() const {
    return stopped() ? std::string_view(stops_[static_cast<size_t>(stop_)]) : std::string_view();
  }

 private:
  std::string take(std::string_view text);

  std::vector<std::string> stops_;
  Utf8Stream characters_;
  std::string held_;  // what could begin a stop string
  int stop_ = -1;
};

}  // namespace tril
