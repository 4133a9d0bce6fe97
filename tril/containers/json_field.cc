#include "tril/containers/json_field.h"

#include <fmt/format.h>

#include <cstring>

#include "tril/base/printable.h"

namespace tril {
namespace {

constexpr int kDeepest = 200;
constexpr size_t kKeysNamed = 8;

void append_utf8(std::string& out, uint32_t c) {
  const auto put = [&](uint32_t bits) { out.push_back(static_cast<char>(bits)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xC0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xE0 | c >> 12);
    } else {
      put(0xF0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3F));
    }
    put(0x80 | (c >> 6 & 0x3F));
  }
  put(0x80 | (c & 0x3F));
}

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool find(std::string_view field, std::string& out) {
    space();
    if (!object(field, &out, 0)) return false;
    space();
    if (at_ != text_.size()) return fail("more than one JSON value");
    if (!found_) return fail(found_other_.empty() ? missing(field) : found_other_);
    return true;
  }
  const std::string& error() const { return error_; }

 private:
  bool fail(std::string what) {
    if (error_.empty()) error_ = std::move(what);
    return false;
  }
  bool invalid() { return fail(fmt::format("not valid JSON at byte {}", at_)); }

  void space() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(char c) {
    space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // `field` is looked for in this object; null: only checked.
  bool object(std::string_view field, std::string* out, int depth) {
    if (!take('{')) return depth == 0 ? fail("not a JSON object") : invalid();
    if (take('}')) return true;
    const size_t dot = field.find('.');
    const std::string_view head = field.substr(0, dot);
    std::string key;
    do {
      space();
      key.clear();
      if (!string(&key)) return false;
      if (!take(':')) return invalid();
      space();
      if (out != nullptr && key == head) {
        found_ = false;
        if (!wanted(dot == field.npos ? std::string_view() : field.substr(dot + 1), field, out, depth))
          return false;
      } else {
        if (out != nullptr && depth == 0 && ++keys_ <= kKeysNamed)
          names_ += fmt::format("{}'{}'", names_.empty() ? "" : ", ", printable(key, 40));
        if (!value(depth + 1)) return false;
      }
    } while (take(','));
    return take('}') || invalid();
  }

  bool wanted(std::string_view inner, std::string_view field, std::string* out, int depth) {
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    if (!inner.empty() && first == '{') return depth < kDeepest ? object(inner, out, depth + 1) : too_deep();
    if (inner.empty() && first == '"') {
      out->clear();
      return found_ = string(out);
    }
    found_other_ =
        fmt::format("the field '{}' is no {}", printable(field, 40), inner.empty() ? "string" : "object");
    return value(depth + 1);
  }

  bool too_deep() { return fail(fmt::format("JSON nested deeper than {}", kDeepest)); }

  bool value(int depth) {
    if (depth > kDeepest) return too_deep();
    space();
    if (at_ >= text_.size()) return invalid();
    switch (text_[at_]) {
      case '{':
        return object({}, nullptr, depth);
      case '[':
        return array(depth);
      case '"':
        return string(nullptr);
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        return number();
    }
  }

  bool array(int depth) {
    ++at_;
    if (take(']')) return true;
    do {
      if (!value(depth + 1)) return false;
    } while (take(','));
    return take(']') || invalid();
  }

  bool word(std::string_view expected) {
    if (!text_.substr(at_).starts_with(expected)) return invalid();
    at_ += expected.size();
    return true;
  }

  size_t digits() {
    const size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    return at_ - begin;
  }

  bool number() {
    const auto next_is = [&](std::string_view any) {
      return at_ < text_.size() && any.find(text_[at_]) != any.npos;
    };
    if (next_is("-")) ++at_;
    const bool zero = next_is("0");
    const size_t whole = digits();
    if (whole == 0 || (zero && whole > 1)) return invalid();
    if (next_is(".") && (++at_, digits() == 0)) return invalid();
    if (next_is("eE")) {
      ++at_;
      if (next_is("+-")) ++at_;
      if (digits() == 0) return invalid();
    }
    return true;
  }

  bool string(std::string* out) {
    if (at_ >= text_.size() || text_[at_] != '"') return invalid();
    ++at_;
    while (true) {
      const size_t begin = at_;
      while (at_ < text_.size() && text_[at_] != '"' && text_[at_] != '\\' &&
             static_cast<unsigned char>(text_[at_]) >= 0x20)
        ++at_;
      if (out != nullptr) out->append(text_, begin, at_ - begin);
      if (at_ >= text_.size()) return fail("a string of the JSON object does not end");
      if (text_[at_] == '"') return ++at_, true;
      if (text_[at_] != '\\') return invalid();
      if (!escape(out)) return false;
    }
  }

  bool hex4(uint32_t& code) {
    if (text_.size() - at_ < 4) return invalid();
    code = 0;
    for (int i = 0; i < 4; ++i) {
      const char c = text_[at_++];
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      if (digit < 0) return invalid();
      code = code << 4 | static_cast<uint32_t>(digit);
    }
    return true;
  }

  bool escape(std::string* out) {
    static constexpr std::string_view kNames = "\"\\/bfnrt", kValues = "\"\\/\b\f\n\r\t";
    ++at_;
    if (at_ >= text_.size()) return invalid();
    const char c = text_[at_++];
    if (const size_t i = kNames.find(c); i != kNames.npos) {
      if (out != nullptr) out->push_back(kValues[i]);
      return true;
    }
    uint32_t code = 0;
    if (c != 'u' || !hex4(code)) return invalid();
    if (code >= 0xD800 && code < 0xE000) {
      uint32_t low = 0;
      const bool pair = code < 0xDC00 && text_.substr(at_).starts_with("\\u");
      if (pair) at_ += 2;
      if (pair && !hex4(low)) return false;
      if (low < 0xDC00 || low > 0xDFFF) {
        if (out == nullptr) return true;
        return fail(fmt::format("half a surrogate pair (\\u{:04x}) before byte {}", code, at_));
      }
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    if (out != nullptr) append_utf8(*out, code);
    return true;
  }

  std::string missing(std::string_view field) const {
    const std::string more = keys_ > kKeysNamed ? ", ..." : "";
    return fmt::format("no field '{}'; there {}", printable(field, 40),
                       names_.empty() ? "is none" : "is " + names_ + more);
  }

  std::string_view text_;
  size_t at_ = 0, keys_ = 0;
  bool found_ = false;
  std::string error_, names_, found_other_;
};

}  // namespace

std::string read_json_field(std::string_view object, std::string_view field, std::string& out) {
  Scanner scanner(object);
  return scanner.find(field, out) ? std::string() : scanner.error();
}

}  // namespace tril
