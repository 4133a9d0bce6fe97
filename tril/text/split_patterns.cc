#include "tril/text/split_patterns.h"

#include <algorithm>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using namespace std::string_view_literals;

constexpr size_t kLongestPattern = 16384;

constexpr std::string_view kContractions = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
// Possessive, as in cl100k_base; {1,3}+ would be another thing in Oniguruma.
constexpr std::string_view kCl100kContractions = "(?i:[sdmt]|ll|ve|re)";
constexpr std::string_view kCl100k =
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s"
    "*[\\r\\n]|\\s+(?!\\S)|\\s";
constexpr std::string_view kLlama3 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r"
    "\\n]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kQwen2 =
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
    "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
    "\\s+(?!\\S)|\\s+";
constexpr std::string_view kO200k =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'"
    "ve|'m|'"
    "ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|"
    "'t|'re|"
    "'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";
constexpr std::string_view kDeepseekV3 =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}"
    "]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+";
// The scripts with cases, as DeepSeek-LLM lists them.
constexpr std::string_view kDeepseekLetters =
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-"
    "Ᏽᏸ-"
    "ᏽᲐ-"
    "ᲺᲽ-"
    "Ჿᴀ-"
    "ᴫᵫ-"
    "ᵷᵹ-"
    "ᶚḀ-"
    "ἕἘ-"
    "Ἕἠ-ὅὈ-Ὅὐ-"
    "ὗὙὛὝὟ-\u1F7Dᾀ-ᾴᾶ-ᾼ\u1FBEῂ-ῄῆ-ῌῐ-\u1FD3ῖ-\u1FDBῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212A-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ"
    "-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-"
    "𐓓𐓘-"
    "𐓻𐲀-"
    "𐲲𐳀-"
    "𐳲𑢠-"
    "𑣟𞤀-"
    "𞥃]+";
constexpr std::string_view kDeepseekHan = "[一-龥ࠀ-一가-퟿]+";

struct Named {
  std::string_view name;
  std::vector<std::string_view> splits;
};

const std::vector<Named>& named() {
  static const std::vector<Named> all = {
      {"gpt2", {kGpt2Split}},
      {"cl100k", {kCl100k}},
      {"llama3", {kLlama3}},
      {"o200k", {kO200k}},
      {"qwen2", {kQwen2}},
      {"digits", {kDigitSplit, kGpt2Split}},
      {"deepseek-llm",
       {"[\r\n]", kDeepseekLetters, "\\s?[!-/:-~！-／：-～‘-‟　-。]+", "\\s+$", kDeepseekHan, kDigitSplit}},
      {"deepseek-coder", {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", kDeepseekHan, kDigitSplit}},
      {"deepseek-v3", {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", kDeepseekV3}},
      {"none", {}}};
  return all;
}

bool is_known(std::string_view pattern) {
  for (const Named& entry : named())
    if (std::find(entry.splits.begin(), entry.splits.end(), pattern) != entry.splits.end()) return true;
  return false;
}

// Goes through a pattern and stops at the first thing that is not in the common subset.
class SubsetCheck {
 public:
  explicit SubsetCheck(std::string_view pattern) : rest_(pattern) {}

  std::optional<std::string> fault() {
    while (!rest_.empty() && fault_.empty()) step();
    if (fault_.empty()) return std::nullopt;
    return fault_;
  }

 private:
  bool take(std::string_view start) {
    if (!rest_.starts_with(start)) return false;
    rest_.remove_prefix(start.size());
    return true;
  }
  void stop(std::string_view part) { fault_ = part.empty() ? "an end" : part; }

  void step() {
    if (take("\\")) return escape(/*in_class=*/false);
    if (take("[")) return bracket();
    if (take("(?:") || take("(?!") || take("(?=") || take(kContractions) || take(kCl100kContractions)) return;
    if (rest_.starts_with("(?")) return stop(rest_.substr(0, 4));
    if (take("{")) return repeat();
    for (const char* kind : {"*?", "+?", "??", "^", "$"})
      if (rest_.starts_with(kind)) return stop(kind);
    rest_.remove_prefix(1);
  }

  void escape(bool in_class) {
    if (take("p{") || take("P{")) {
      const std::string_view name = rest_.substr(0, rest_.find('}'));
      const bool category = !name.empty() && name.size() <= 2 &&
                            "LMNPSZ"sv.find(name[0]) != std::string_view::npos &&
                            (name.size() == 1 || (name[1] >= 'a' && name[1] <= 'z'));
      if (!category && name != "Han") return stop(name);
      rest_.remove_prefix(name.size());
      if (!take("}")) stop("\\p{");
      return;
    }
    const char c = rest_.empty() ? '\0' : rest_[0];
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    const bool known =
        in_class ? "rntsd"sv.find(c) != std::string_view::npos : "rntsdS"sv.find(c) != std::string_view::npos;
    if (c == '\0' || c < 0 || (letter && !known)) return stop("\\" + std::string(rest_.substr(0, 1)));
    rest_.remove_prefix(1);
  }

  void bracket() {
    take("^");
    if (rest_.starts_with("]")) return stop("[]");
    while (fault_.empty() && !take("]")) {
      if (rest_.empty()) return stop("[");
      if (rest_.starts_with("[") || rest_.starts_with("&&")) return stop(rest_.substr(0, 2));
      if (take("\\")) {
        escape(/*in_class=*/true);
      } else {
        rest_.remove_prefix(1);
      }
    }
  }

  // {m}, {m,} or {m,n}, not possessive and not lazy, which mean different things.
  void repeat() {
    const std::string_view inside = rest_.substr(0, rest_.find('}'));
    const bool numbers = !inside.empty() && inside.size() <= 9 && inside[0] >= '0' && inside[0] <= '9' &&
                         inside.find_first_not_of("0123456789,") == std::string_view::npos &&
                         std::count(inside.begin(), inside.end(), ',') <= 1;
    if (!numbers || inside.size() == rest_.size()) return stop("{");
    rest_.remove_prefix(inside.size() + 1);
    if (rest_.starts_with("+") || rest_.starts_with("?")) stop("{" + std::string(inside) + "}" + rest_[0]);
  }

  std::string_view rest_;
  std::string fault_;
};

// Code of the pre-tokenizer's own, for the patterns that it knows; PCRE2 for others.
SplitStep step_of(std::string_view pattern) {
  const std::pair<std::string_view, SplitPattern> known[] = {
      {kGpt2Split, SplitPattern::kGpt2}, {kCl100k, SplitPattern::kCl100k},
      {kO200k, SplitPattern::kO200k},    {kLlama3, SplitPattern::kLlama3},
      {kQwen2, SplitPattern::kQwen2},    {kDigitSplit, SplitPattern::kDigits}};
  for (const auto& [regex, name] : known)
    if (pattern == regex) return {name, ""};
  // $ is the end of each line; a run of spaces is tried once, not from each of its places.
  if (pattern == "\\s+$") return {SplitPattern::kOwn, "(?:\\G|(?<!\\s))\\s+(?m:$)"};
  return {SplitPattern::kOwn, std::string(pattern)};
}

}  // namespace

const std::string_view kGpt2Split =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

std::vector<std::string> split_names() {
  std::vector<std::string> names;
  for (const Named& entry : named()) names.emplace_back(entry.name);
  return names;
}

std::optional<std::vector<std::string>> splits_of_name(std::string_view name) {
  for (const Named& entry : named())
    if (entry.name == name) return std::vector<std::string>(entry.splits.begin(), entry.splits.end());
  return std::nullopt;
}

std::string name_of_splits(const std::vector<std::string>& splits) {
  for (const Named& entry : named())
    if (std::equal(splits.begin(), splits.end(), entry.splits.begin(), entry.splits.end()))
      return std::string(entry.name);
  return "own";
}

std::optional<std::string> split_pattern_fault(std::string_view pattern) {
  if (is_known(pattern)) return std::nullopt;
  if (pattern.empty() || pattern.size() > kLongestPattern) return fmt::format("{} bytes", pattern.size());
  if (first_invalid_utf8(pattern) || pattern.find('\0') != std::string_view::npos)
    return "bytes that are no text";
  return SubsetCheck(pattern).fault();
}

Pretokenizer pretokenizer_of(const std::vector<std::string>& splits) {
  std::vector<SplitStep> steps;
  for (const std::string& pattern : splits) {
    const auto fault = split_pattern_fault(pattern);
    check_data(
        !fault,
        "the split pattern \"{}\" has \"{}\", which may mean different things to different programs; it is "
        "not supported",
        printable(pattern), printable(fault.value_or("")));
    steps.push_back(step_of(pattern));
  }
  try {
    return Pretokenizer(std::move(steps));
  } catch (const Error& error) {
    fail(ErrorKind::kData, "{}", error.what());
  }
}

}  // namespace tril
