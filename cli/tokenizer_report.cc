// tril tokenizer info and compare.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "cli/format.h"
#include "cli/tokenizer_command.h"
#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/json.h"
#include "tril/text/tokenizer.h"

namespace tril::cli {
namespace {

constexpr const char* kInfoExamples =
    "  tril tokenizer info runs/book\n"
    "  tril tokenizer info cl100k_base.tiktoken --json";

constexpr const char* kCompareExamples =
    "  tril tokenizer compare old.json new.json book.txt\n"
    "  tril tokenizer compare gpt2/vocab.json cl100k_base.tiktoken *.txt";

constexpr size_t kLongestShown = 8, kSpecialsShown = 8;

// The ids with the most bytes, the smaller id first among equals.
std::vector<int32_t> longest_tokens(const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id)
    if (!tokenizer.token_bytes(id).empty()) ids.push_back(id);
  const size_t shown = std::min(ids.size(), kLongestShown);
  std::partial_sort(
      ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(shown), ids.end(), [&](int32_t a, int32_t b) {
        const size_t left = tokenizer.token_bytes(a).size(), right = tokenizer.token_bytes(b).size();
        return left != right ? left > right : a < b;
      });
  ids.resize(shown);
  return ids;
}

int64_t count_undefined(const Tokenizer& tokenizer) {
  int64_t count = 0;
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) count += !tokenizer.is_defined(id);
  return count;
}

Json info_json(const std::string& file, const Tokenizer& tokenizer) {
  Json specials = Json::array(), longest = Json::array();
  for (const SpecialToken& token : tokenizer.specials())
    specials.push_back({{"id", token.id}, {"content", token.content}, {"control", token.control}});
  for (const int32_t id : longest_tokens(tokenizer)) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    longest.push_back({{"id", id}, {"bytes", bytes.size()}, {"text", std::string(bytes)}});
  }
  return {{"file", file},
          {"kind", tokenizer.kind_name()},
          {"pattern", tokenizer.pattern()},
          {"vocabulary", tokenizer.vocabulary()},
          {"undefined", count_undefined(tokenizer)},
          {"begin_of_text", tokenizer.begin_of_text()},
          {"end_of_text", tokenizer.end_of_text()},
          {"fingerprint", tokenizer.fingerprint()},
          {"specials", specials},
          {"longest", longest}};
}

void print_info(const std::string& file, const Tokenizer& tokenizer) {
  const auto row = [](std::string_view name, std::string_view value) {
    fmt::print("  {:<12} {}\n", name, value);
  };
  const auto id_or_none = [](int32_t id) { return id < 0 ? std::string("none") : std::to_string(id); };
  fmt::print("{}: {}\n", one_line(file), tokenizer.kind_name());
  if (tokenizer.kind() == Tokenizer::Kind::kBpe) row("pattern", tokenizer.pattern());
  const int64_t undefined = count_undefined(tokenizer);
  row("vocabulary",
      format_count(tokenizer.vocabulary()) +
          (undefined > 0 ? fmt::format(", {} of them undefined", format_count(undefined)) : ""));
  row("begin", id_or_none(tokenizer.begin_of_text()));
  row("end of text", id_or_none(tokenizer.end_of_text()));
  row("fingerprint", tokenizer.fingerprint());
  row("special", format_count(std::ssize(tokenizer.specials())));
  for (size_t i = 0; i < std::min(tokenizer.specials().size(), kSpecialsShown); ++i) {
    const SpecialToken& token = tokenizer.specials()[i];
    fmt::print("  {:>12} {}{}\n", token.id, printable(token.content),
               token.control ? "" : "   (found in every text)");
  }
  if (tokenizer.specials().size() > kSpecialsShown)
    fmt::print("  {:>12} {} more\n", "...", tokenizer.specials().size() - kSpecialsShown);
  row("longest", "");
  for (const int32_t id : longest_tokens(tokenizer)) {
    const std::string_view bytes = tokenizer.token_bytes(id);
    fmt::print("  {:>12} \"{}\" ({} bytes)\n", id, printable(bytes, 60), bytes.size());
  }
}

struct Difference {
  int64_t token = -1;  // place of the first difference; -1: none
  int64_t byte = 0;    // where that token begins
  std::string_view a, b;
};

// By the bytes of the tokens: ids of different vocabularies say nothing.
Difference first_difference(const Tokenizer& a, const std::vector<int32_t>& ids_a, const Tokenizer& b,
                            const std::vector<int32_t>& ids_b) {
  Difference out;
  for (size_t i = 0; i < std::max(ids_a.size(), ids_b.size()); ++i) {
    const std::string_view left = i < ids_a.size() ? a.token_bytes(ids_a[i]) : std::string_view();
    const std::string_view right = i < ids_b.size() ? b.token_bytes(ids_b[i]) : std::string_view();
    if (left != right) {
      out.token = static_cast<int64_t>(i);
      out.a = left;
      out.b = right;
      return out;
    }
    out.byte += static_cast<int64_t>(left.size());
  }
  return out;
}

double bytes_per_token(int64_t bytes, int64_t tokens) {
  return tokens == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(tokens);
}

struct Compared {
  std::string file;
  int64_t bytes = 0, tokens_a = 0, tokens_b = 0;
  bool same_ids = true;
  Difference difference;
};

Json compared_json(const Compared& c) {
  Json json = {{"file", c.file},
               {"bytes", c.bytes},
               {"tokens_a", c.tokens_a},
               {"tokens_b", c.tokens_b},
               {"bytes_per_token_a", bytes_per_token(c.bytes, c.tokens_a)},
               {"bytes_per_token_b", bytes_per_token(c.bytes, c.tokens_b)},
               {"same_ids", c.same_ids},
               {"first_difference", nullptr}};
  if (c.difference.token >= 0)
    json["first_difference"] = {{"token", c.difference.token},
                                {"byte", c.difference.byte},
                                {"a", std::string(c.difference.a)},
                                {"b", std::string(c.difference.b)}};
  return json;
}

void print_compared(const Compared& c) {
  fmt::print("{:<28} {:>12} {:>12} {:>12} {:>8.3f} {:>8.3f}\n", one_line(c.file), format_count(c.bytes),
             format_count(c.tokens_a), format_count(c.tokens_b), bytes_per_token(c.bytes, c.tokens_a),
             bytes_per_token(c.bytes, c.tokens_b));
  if (c.difference.token >= 0) {
    fmt::print("  differ first at token {}, byte {}: \"{}\" and \"{}\"\n", format_count(c.difference.token),
               format_count(c.difference.byte), printable(c.difference.a, 40), printable(c.difference.b, 40));
  } else {
    fmt::print("  the same tokens, {}\n", c.same_ids ? "the same ids" : "with other ids");
  }
}

}  // namespace

int tokenizer_info(const Arguments& words) {
  std::string file, pattern;
  bool json = false;
  CommandLine line("tokenizer info",
                   "What a tokenizer is: kind, size, special tokens, pattern, hash, longest tokens.",
                   kInfoExamples);
  line.positional("TOKENIZER", file, "a file, or the folder of a model");
  line.text("--pattern", pattern, "NAME", kPatternHelp);
  line.flag("--json", json, "report as one JSON object");
  if (!line.parse(words)) return 0;
  check_use(!file.empty(), "tril tokenizer info: no tokenizer given; usage: tril tokenizer info FILE");
  const Tokenizer tokenizer = Tokenizer::load(file, pattern);
  if (json)
    std::puts(to_text(info_json(file, tokenizer)).c_str());
  else
    print_info(file, tokenizer);
  return 0;
}

int tokenizer_compare(const Arguments& words) {
  std::vector<std::string> files;
  std::string pattern;
  bool json = false;
  CommandLine line(
      "tokenizer compare",
      "Encodes the same text with two tokenizers: tokens, bytes per token, and where they first differ.",
      kCompareExamples);
  line.positionals("A B FILE", files, "two tokenizers, then texts (- for standard input)");
  line.text("--pattern", pattern, "NAME", kPatternHelp);
  line.flag("--json", json, "report as one JSON object");
  if (!line.parse(words)) return 0;
  check_use(files.size() >= 3,
            "tril tokenizer compare: give two tokenizers and at least one text; usage: tril tokenizer "
            "compare A B FILE...");
  const Tokenizer a = Tokenizer::load(files[0], pattern), b = Tokenizer::load(files[1], pattern);
  Json rows = Json::array();
  if (!json)
    fmt::print("{:<28} {:>12} {:>12} {:>12} {:>17}\n", "text", "bytes", "tokens A", "tokens B",
               "bytes/token A, B");
  Compared total = {.file = "all"};
  for (size_t i = 2; i < files.size(); ++i) {
    const std::string text = read_text(files[i]);
    const std::vector<int32_t> ids_a = a.encode(text), ids_b = b.encode(text);
    const Compared c = {.file = files[i],
                        .bytes = std::ssize(text),
                        .tokens_a = std::ssize(ids_a),
                        .tokens_b = std::ssize(ids_b),
                        .same_ids = ids_a == ids_b,
                        .difference = first_difference(a, ids_a, b, ids_b)};
    total.bytes += c.bytes;
    total.tokens_a += c.tokens_a;
    total.tokens_b += c.tokens_b;
    if (json)
      rows.push_back(compared_json(c));
    else
      print_compared(c);
  }
  if (json)
    std::puts(to_text({{"a", files[0]}, {"b", files[1]}, {"files", rows}}).c_str());
  else if (files.size() > 3)
    fmt::print("{:<28} {:>12} {:>12} {:>12} {:>8.3f} {:>8.3f}\n", "all", format_count(total.bytes),
               format_count(total.tokens_a), format_count(total.tokens_b),
               bytes_per_token(total.bytes, total.tokens_a), bytes_per_token(total.bytes, total.tokens_b));
  return 0;
}

}  // namespace tril::cli
