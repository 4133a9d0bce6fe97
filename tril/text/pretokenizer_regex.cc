#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/pretokenizer_parts.h"

namespace tril {
namespace {

// White space as Unicode defines it: PCRE2's \s would also take U+180E, which other engines do not.
constexpr std::string_view kSpace = "\\x09-\\x0d\\x{85}\\p{Z}";

// \s and \S of the expression as Unicode's White_Space.
std::string with_unicode_spaces(std::string_view expression) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    const char next = i + 1 < expression.size() ? expression[i + 1] : '\0';
    if (c == '\\' && next == 's') {
      out += in_class ? std::string(kSpace) : fmt::format("[{}]", kSpace);
      ++i;
    } else if (c == '\\' && next == 'S' && !in_class) {
      out += fmt::format("[^{}]", kSpace);
      ++i;
    } else if (c == '\\' && next != '\0') {
      out += {c, next};
      ++i;
    } else {
      // A ] that comes first in a class is an ordinary character.
      if (c == '[' && !in_class) {
        in_class = true;
        out += c;
        if (next == '^') out += expression[++i];
        if (i + 1 < expression.size() && expression[i + 1] == ']') out += expression[++i];
        continue;
      }
      if (c == ']') in_class = false;
      out += c;
    }
  }
  return out;
}

}  // namespace

struct SplitRegex::Code {
  pcre2_code* code = nullptr;
  ~Code() { pcre2_code_free(code); }
};

SplitRegex::SplitRegex(std::string_view expression) : code_(std::make_unique<Code>()) {
  constexpr size_t kLongest = 65536;
  check_use(expression.size() <= kLongest, "split pattern: {} bytes are too long; at most {} are taken",
            expression.size(), kLongest);
  const std::string pattern = with_unicode_spaces(expression);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C, &error,
                              &offset, nullptr);
  if (code_->code == nullptr) {
    std::array<char, 256> reason{};
    pcre2_get_error_message(error, reinterpret_cast<PCRE2_UCHAR*>(reason.data()), reason.size());
    fail(ErrorKind::kUse, "split pattern '{}': {}, near '{}'; patterns are regular expressions of PCRE2",
         printable(expression), reason.data(), printable(std::string_view(pattern).substr(0, offset)));
  }
  pcre2_jit_compile(code_->code, PCRE2_JIT_COMPLETE);  // without it PCRE2 interprets: slower, the same
}

SplitRegex::~SplitRegex() = default;

void SplitRegex::split(std::string_view text, FunctionRef<void(const char* end)> piece) const {
  struct Free {
    void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
  };
  const std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create(1, nullptr));
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  const uint32_t options = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
  for (size_t at = 0; at < text.size();) {
    int found = pcre2_match(code_->code, subject, text.size(), at, options, match.get(), nullptr);
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found =
          pcre2_match(code_->code, subject, text.size(), at, options | PCRE2_NO_JIT, match.get(), nullptr);
    }
    if (found == PCRE2_ERROR_NOMATCH) return piece(text.data() + text.size());
    check_data(found >= 0,
               "text: PCRE2 cannot split it at byte {} (error {}); cut the text into shorter lines, or use a "
               "simpler split pattern",
               at, found);
    const size_t* const ends = pcre2_get_ovector_pointer(match.get());
    check_data(ends[0] >= at && ends[1] > ends[0],
               "split pattern: its \\K moved a match out of order at byte {}; leave it out", at);
    if (ends[0] > at) piece(text.data() + ends[0]);
    piece(text.data() + ends[1]);
    at = ends[1];
  }
}

}  // namespace tril
