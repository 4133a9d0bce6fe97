#include "tril/text/pretokenizer.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <memory>

#include "tril/base/error.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

// White space as Unicode defines it. PCRE2's \s would also take U+180E, which other engines do not.
#define TRIL_SPACE "\\x09-\\x0d\\x{85}\\p{Z}"
// GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// written so that nothing is tried twice: possessive repeats cannot overflow a stack.
constexpr char kPattern[] =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}++| ?\\p{N}++| ?[^" TRIL_SPACE "\\p{L}\\p{N}]++|[" TRIL_SPACE
    "]++\\z|[" TRIL_SPACE "]+(?![^" TRIL_SPACE "])|[" TRIL_SPACE "]";
#undef TRIL_SPACE

const pcre2_code* pattern() {
  static const pcre2_code* const code = [] {
    int error = 0;
    PCRE2_SIZE offset = 0;
    pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(kPattern), PCRE2_ZERO_TERMINATED,
                                         PCRE2_UTF | PCRE2_UCP, &error, &offset, nullptr);
    check_use(compiled != nullptr,
              "PCRE2 refuses the split pattern (error {} at {}); install a PCRE2 with Unicode", error,
              offset);
    pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without it pcre2_match interprets: slower, the same
    return compiled;
  }();
  return code;
}

class Matcher {
 public:
  // The end of the piece that starts at `at`; text is valid UTF-8.
  size_t piece_end(std::string_view text, size_t at) {
    if (!match_) match_.reset(pcre2_match_data_create_from_pattern(pattern(), nullptr));
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_ANCHORED;
    int found = pcre2_match(pattern(), subject, text.size(), at, options, match_.get(), nullptr);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(pattern(), subject, text.size(), at, options | PCRE2_NO_JIT, match_.get(), nullptr);
    }
    check_data(found > 0,
               "text: PCRE2 cannot split it at byte {} (error {}); cut the text into shorter lines", at,
               found);
    return pcre2_get_ovector_pointer(match_.get())[1];
  }

 private:
  struct Free {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  std::unique_ptr<pcre2_match_data, Free> match_;
};

enum Class : uint8_t { kLetter, kNumber, kSpace, kOther, kNotAscii };

constexpr std::array<Class, 256> kClasses = [] {
  std::array<Class, 256> classes{};
  for (int c = 0; c < 256; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    const bool space = (c >= 9 && c <= 13) || c == ' ';
    classes[static_cast<size_t>(c)] = c >= 128               ? kNotAscii
                                      : letter               ? kLetter
                                      : c >= '0' && c <= '9' ? kNumber
                                      : space                ? kSpace
                                                             : kOther;
  }
  return classes;
}();

Class class_at(std::string_view text, size_t at) { return kClasses[static_cast<unsigned char>(text[at])]; }

size_t contraction_length(std::string_view text, size_t at) {
  if (text[at] != '\'' || at + 1 >= text.size()) return 0;
  const char first = text[at + 1];
  if (first == 's' || first == 'd' || first == 'm' || first == 't') return 2;
  if (at + 2 >= text.size()) return 0;
  const char second = text[at + 2];
  const bool three = (first == 'l' && second == 'l') || ((first == 'v' || first == 'r') && second == 'e');
  return three ? 3 : 0;
}

// What the pattern does where only ASCII decides; 0 where the pattern itself must be asked.
size_t ascii_piece_end(std::string_view text, size_t at) {
  if (const size_t length = contraction_length(text, at)) return at + length;
  size_t end = at;
  if (text[at] == ' ' && at + 1 < text.size() && class_at(text, at + 1) != kSpace) ++end;
  const Class kind = class_at(text, end);
  if (kind == kNotAscii) return 0;
  while (end < text.size() && class_at(text, end) == kind) ++end;
  if (end == text.size()) return end;
  if (class_at(text, end) == kNotAscii) return 0;
  // White space before a word leaves its last character to the word.
  return kind == kSpace && end - at > 1 ? end - 1 : end;
}

void split_valid(std::string_view text, Matcher& matcher, FunctionRef<void(std::string_view)> piece) {
  for (size_t at = 0; at < text.size();) {
    size_t end = ascii_piece_end(text, at);
    if (end == 0) end = matcher.piece_end(text, at);
    piece(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace

void split_pieces(std::string_view text, FunctionRef<void(std::string_view)> piece) {
  Matcher matcher;
  while (!text.empty()) {
    const size_t valid = first_invalid_utf8(text).value_or(text.size());
    split_valid(text.substr(0, valid), matcher, piece);
    size_t end = valid;
    while (end < text.size() && utf8_length(text, end) == 0) ++end;
    if (end > valid) piece(text.substr(valid, end - valid));
    text.remove_prefix(end);
  }
}

void split_pieces_by_pattern(std::string_view text, FunctionRef<void(std::string_view)> piece) {
  Matcher matcher;
  for (size_t at = 0; at < text.size();) {
    const size_t end = matcher.piece_end(text, at);
    piece(text.substr(at, end - at));
    at = end;
  }
}

}  // namespace tril
