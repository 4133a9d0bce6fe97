#include "tril/text/normalization.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

#include "tril/text/normalization_table.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

// Hangul syllables are composed by arithmetic (The Unicode Standard, section 3.12).
constexpr char32_t kSyllables = 0xAC00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr char32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;

struct Mark {
  char32_t character;
  uint8_t combining_class;
};

uint8_t combining_class(char32_t c) {
  const auto at = std::lower_bound(combining_ranges.begin(), combining_ranges.end(), c,
                                   [](const CombiningRange& range, char32_t x) { return range.last < x; });
  return at != combining_ranges.end() && c >= at->first ? at->combining_class : 0;
}

const Decomposition* decomposition(char32_t c) {
  const auto* const at =
      std::lower_bound(decompositions.begin(), decompositions.end(), c,
                       [](const Decomposition& entry, char32_t x) { return entry.character < x; });
  return at != decompositions.end() && at->character == c ? at : nullptr;
}

// 0: the two do not compose.
char32_t composition(char32_t first, char32_t second) {
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  const bool open_syllable =
      first - kSyllables < kLeadCount * kVowelCount * kTailCount && (first - kSyllables) % kTailCount == 0;
  if (open_syllable && second > kTails && second - kTails < kTailCount) return first + (second - kTails);
  static const std::unordered_map<uint64_t, char32_t> composed = [] {
    std::unordered_map<uint64_t, char32_t> table;
    for (const Decomposition& entry : decompositions)
      if (entry.stays) table.emplace(uint64_t{entry.first} << 32 | entry.second, entry.character);
    return table;
  }();
  const auto found = composed.find(uint64_t{first} << 32 | second);
  return found == composed.end() ? 0 : found->second;
}

// Collects decomposed characters and writes them composed.
class Composer {
 public:
  explicit Composer(std::string& out) : out_(out) {}

  void add(char32_t c) {
    if (c < 0x300) flush();  // composes with nothing before it
    decompose(c);
  }

  void flush() {
    put_in_order();
    compose();
    for (const Mark& mark : marks_) utf8_append(out_, mark.character);
    marks_.clear();
  }

 private:
  void decompose(char32_t c) {
    const Decomposition* const parts = c < 0xC0 ? nullptr : decomposition(c);
    if (parts == nullptr) {
      marks_.push_back({c, combining_class(c)});
    } else {
      decompose(parts->first);
      if (parts->second != 0) decompose(parts->second);
    }
  }

  // Runs of marks by their class.
  void put_in_order() {
    const auto is_mark = [](const Mark& mark) { return mark.combining_class != 0; };
    for (auto at = marks_.begin(); at != marks_.end();) {
      const auto first = std::find_if(at, marks_.end(), is_mark);
      at = std::find_if_not(first, marks_.end(), is_mark);
      std::stable_sort(first, at,
                       [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
    }
  }

  // Each with the last starter before it, unless another of its class or a starter is between.
  void compose() {
    size_t size = 0, starter = SIZE_MAX;
    for (const Mark mark : marks_) {
      if (starter != SIZE_MAX) {
        const bool free = size - 1 == starter || marks_[size - 1].combining_class < mark.combining_class;
        const char32_t composed = free ? composition(marks_[starter].character, mark.character) : 0;
        if (composed != 0) {
          marks_[starter].character = composed;
          continue;
        }
      }
      if (mark.combining_class == 0) starter = size;
      marks_[size++] = mark;
    }
    marks_.resize(size);
  }

  std::string& out_;
  std::vector<Mark> marks_;
};

}  // namespace

bool is_surely_nfc(std::string_view text) {
  // U+0300 is 0xCC 0x80; longer characters begin with larger bytes still.
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0xCC; });
}

std::string to_nfc(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  Composer composer(out);
  for (size_t at = 0; at < text.size();) {
    const int length = utf8_length(text, at);
    if (length == 0) {
      composer.flush();
      out += text[at++];
      continue;
    }
    composer.add(utf8_decode(text, at));
    at += static_cast<size_t>(length);
  }
  composer.flush();
  return out;
}

}  // namespace tril
