// The known patterns as what they do, one piece at a time. Characters that are invalid, and the end, end a
// text.
#include "tril/text/pretokenizer_parts.h"
#include "tril/text/unicode_classes.h"

namespace tril {
namespace {

bool is_letter(CharClass kind) {
  return kind == CharClass::kUpper || kind == CharClass::kLower || kind == CharClass::kLetter;
}
bool is_number(CharClass kind) { return kind == CharClass::kNumber; }
bool is_space(CharClass kind) { return kind == CharClass::kSpace; }
bool is_other(CharClass kind) { return kind == CharClass::kOther || kind == CharClass::kMark; }
// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [\p{Ll}\p{Lm}\p{Lo}\p{M}] of o200k, and what is in both
bool is_both(CharClass kind) { return kind == CharClass::kLetter || kind == CharClass::kMark; }
bool is_upper(CharClass kind) { return kind == CharClass::kUpper || is_both(kind); }
bool is_lower(CharClass kind) { return kind == CharClass::kLower || is_both(kind); }

bool is_newline(const char* at) { return *at == '\r' || *at == '\n'; }

class Scanner {
 public:
  explicit Scanner(const char* end) : table_(UnicodeTable::get()), end_(end) {}

  const char* piece(SplitPattern pattern, const char* at) const {
    if (peek(at).kind == CharClass::kInvalid)
      return run(at, [](CharClass k) { return k == CharClass::kInvalid; });
    switch (pattern) {
      case SplitPattern::kGpt2:
        return gpt2(at, false);
      case SplitPattern::kCl100k:
      case SplitPattern::kLlama3:
        return llama3(at, 3, pattern == SplitPattern::kCl100k);
      case SplitPattern::kQwen2:
        return llama3(at, 1, false);
      case SplitPattern::kO200k:
        return o200k(at);
      case SplitPattern::kDigits:
        return is_number(peek(at).kind)
                   ? numbers(at, 1)
                   : run(at, [](CharClass k) { return k != CharClass::kNumber && k != CharClass::kInvalid; });
      case SplitPattern::kNone:
      case SplitPattern::kOwn:
        break;
    }
    return end_;
  }

  // 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  // `digits`: what is left of it after the step kDigits.
  const char* gpt2(const char* at, bool digits) const {
    if (const ptrdiff_t length = contraction(at, false)) return at + length;
    CharClass kind = peek(at).kind;
    const char* from = at;
    if (*at == ' ') {
      const CharClass next = peek(at + 1).kind;
      if (!is_space(next) && next != CharClass::kInvalid && !(digits && is_number(next))) {
        kind = next;
        ++from;
      }
    }
    if (is_letter(kind)) return run(from, is_letter);
    if (is_number(kind)) return digits ? numbers(at, 1) : run(from, is_number);
    if (is_other(kind)) return run(from, is_other);
    if (kind == CharClass::kInvalid) return invalid(at);
    const char* end = spaces(at, false, false);
    if (digits && is_number(peek(run(at, is_space)).kind)) end = run(at, is_space);
    return end;
  }

 private:
  Character peek(const char* at) const {
    return at < end_ ? character_at(table_, at, end_) : Character{CharClass::kInvalid, 0};
  }

  template <class Takes>
  const char* run(const char* at, Takes takes) const {
    while (at < end_) {
      const Character next = character_at(table_, at, end_);
      if (!takes(next.kind)) break;
      at += next.length;
    }
    return at;
  }

  const char* invalid(const char* at) const {
    return run(at, [](CharClass kind) { return kind == CharClass::kInvalid; });
  }

  // '(?:[sdmt]|ll|ve|re); `any_case`: also with U+017F, the long s, which folds to s. Its length or 0.
  ptrdiff_t contraction(const char* at, bool any_case) const {
    const ptrdiff_t room = end_ - at;
    if (room < 2 || *at != '\'') return 0;
    const auto lower = [&](int i) { return any_case && at[i] >= 'A' && at[i] <= 'Z' ? at[i] + 32 : at[i]; };
    const int first = lower(1);
    if (first == 's' || first == 'd' || first == 'm' || first == 't') return 2;
    if (room < 3) return 0;
    if (any_case && at[1] == '\xC5' && at[2] == '\xBF') return 3;
    const int second = lower(2);
    return (first == 'l' && second == 'l') || ((first == 'v' || first == 'r') && second == 'e') ? 3 : 0;
  }

  // \s*[\r\n]+ if `newlines`, then \s+(?!\S)|\s+; first \s+$ if `whole_at_end`
  const char* spaces(const char* at, bool newlines, bool whole_at_end) const {
    const char* end = at;
    const char* last = at;             // where the last character starts
    const char* after_line = nullptr;  // behind the last newline
    while (end < end_) {
      const Character next = character_at(table_, end, end_);
      if (!is_space(next.kind)) break;
      last = end;
      end += next.length;
      if (is_newline(last)) after_line = end;
    }
    const bool text_ends = peek(end).kind == CharClass::kInvalid;
    if (text_ends && whole_at_end) return end;
    if (newlines && after_line != nullptr) return after_line;
    return text_ends || last == at ? end : last;
  }

  const char* numbers(const char* at, int most) const {
    for (; most > 0; --most) {
      const Character next = peek(at);
      if (!is_number(next.kind)) break;
      at += next.length;
    }
    return at;
  }

  //  ?[^\s\p{L}\p{N}]+[\r\n]*, or [\r\n/]*; null if it does not match
  const char* others(const char* at, bool slashes) const {
    const char* from = *at == ' ' ? at + 1 : at;
    const char* end = run(from, is_other);
    if (end == from) return nullptr;
    while (end < end_ && (is_newline(end) || (slashes && *end == '/'))) ++end;
    return end;
  }

  // [^\r\n\p{L}\p{N}]: what may stand before a word
  static bool may_lead(Character c, const char* at) {
    return !is_letter(c.kind) && !is_number(c.kind) && !is_newline(at);
  }

  // (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*
  //   |\s*[\r\n]+|\s+(?!\S)|\s+
  const char* llama3(const char* at, int digits, bool whole_at_end) const {
    if (const ptrdiff_t length = contraction(at, true)) return at + length;
    const Character c = peek(at);
    if (is_letter(c.kind)) return run(at, is_letter);
    if (is_number(c.kind)) return numbers(at, digits);
    if (may_lead(c, at) && is_letter(peek(at + c.length).kind)) return run(at + c.length, is_letter);
    if (const char* end = others(at, false)) return end;
    return spaces(at, true, whole_at_end);
  }

  // [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+; null if it does not match
  const char* lower_word(const char* at) const {
    const char* both = nullptr;  // behind the last character that is in both sets
    while (at < end_) {
      const Character next = character_at(table_, at, end_);
      if (!is_upper(next.kind)) break;
      at += next.length;
      if (is_both(next.kind)) both = at;
    }
    // The first set takes all it can; where nothing of the second follows it gives back to the last of both.
    return peek(at).kind == CharClass::kLower ? run(at, is_lower) : both;
  }
  // The same with + and *, where the one above does not match: upper case alone.
  const char* upper_word(const char* at) const {
    const char* end = run(at, is_upper);
    return end == at ? nullptr : end;
  }

  // [^\r\n\p{L}\p{N}]? and a word of either kind, with (?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|
  //  ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
  const char* o200k(const char* at) const {
    const Character c = peek(at);
    const bool leads = may_lead(c, at);
    const char* end = leads ? lower_word(at + c.length) : nullptr;
    if (end == nullptr) end = lower_word(at);
    if (end == nullptr && leads) end = upper_word(at + c.length);
    if (end == nullptr) end = upper_word(at);
    if (end != nullptr) return end + contraction(end, true);
    if (is_number(c.kind)) return numbers(at, 3);
    end = others(at, true);
    return end != nullptr ? end : spaces(at, true, false);
  }

  const UnicodeTable& table_;
  const char* end_;
};

}  // namespace

const char* scan_piece(SplitPattern pattern, const char* at, const char* end) {
  return Scanner(end).piece(pattern, at);
}

const char* scan_gpt2_piece(const char* at, const char* end, bool digits) {
  return Scanner(end).gpt2(at, digits);
}

void scan_pieces(SplitPattern pattern, std::string_view text, PieceSink& sink) {
  const Scanner scanner(text.data() + text.size());
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end;) {
    at = scanner.piece(pattern, at);
    sink.add(at);
  }
}

}  // namespace tril
