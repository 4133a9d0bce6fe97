// tril data info, lint and export.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "cli/data_commands.h"
#include "cli/format.h"
#include "cli/output.h"
#include "tril/base/error.h"
#include "tril/data/export.h"
#include "tril/data/lint.h"

namespace tril::cli {
namespace {

constexpr size_t kLongest = 5;
constexpr size_t kTopTokens = 20;

struct LongDocument {
  int64_t tokens = 0, document = 0;
};

std::vector<LongDocument> longest_documents(const TokenFile& side) {
  std::vector<LongDocument> longest;
  const auto longer = [](const LongDocument& a, const LongDocument& b) {
    return a.tokens != b.tokens ? a.tokens > b.tokens : a.document < b.document;
  };
  for (int64_t i = 0; i < side.documents(); ++i) {
    longest.push_back({side.document(i).size(), i});
    std::push_heap(longest.begin(), longest.end(), longer);
    if (longest.size() <= kLongest) continue;
    std::pop_heap(longest.begin(), longest.end(), longer);
    longest.pop_back();
  }
  std::sort(longest.begin(), longest.end(), longer);
  return longest;
}

double bytes_per_token(const TokenFileHeader& h) {
  return h.tokens > 0 ? static_cast<double>(h.text_bytes) / static_cast<double>(h.tokens) : 0;
}

Json side_json(const TokenFile& side) {
  const TokenFileHeader& h = side.header();
  Json longest = Json::array();
  for (const LongDocument& one : longest_documents(side))
    longest.push_back({{"document", one.document}, {"tokens", one.tokens}});
  return {{"tokens", h.tokens},
          {"documents", h.documents},
          {"text_bytes", h.text_bytes},
          {"bytes_per_token", bytes_per_token(h)},
          {"longest_documents", longest}};
}

void print_side(const char* name, const TokenFile& side) {
  const TokenFileHeader& h = side.header();
  fmt::print("{:<11} {} tokens in {} document{}, {} of text, {:.2f} bytes a token\n", name,
             format_count(h.tokens), format_count(h.documents), h.documents == 1 ? "" : "s",
             format_bytes(static_cast<double>(h.text_bytes)), bytes_per_token(h));
  std::string longest;
  for (const LongDocument& one : longest_documents(side))
    longest += fmt::format("{}{} tokens (document {})", longest.empty() ? "" : ", ", format_count(one.tokens),
                           one.document);
  if (!longest.empty()) fmt::print("{:<11} {}\n", "  longest", longest);
}

struct TopToken {
  int64_t id = 0;
  uint64_t count = 0;
};

std::vector<TopToken> top_tokens(const TokenStore& store) {
  std::vector<TopToken> all;
  for (size_t id = 0; id < store.train.counts().size(); ++id)
    if (store.train.counts()[id] > 0) all.push_back({static_cast<int64_t>(id), store.train.counts()[id]});
  const size_t kept = std::min(kTopTokens, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [](const TopToken& a, const TopToken& b) {
                      return a.count != b.count ? a.count > b.count : a.id < b.id;
                    });
  all.resize(kept);
  return all;
}

struct OddKind {
  const char *key, *text;
  OddCharacters LintReport::*member;
};
constexpr OddKind kOddKinds[] = {
    {"replacement_characters", "U+FFFD, text that was broken before", &LintReport::replacement},
    {"control_characters", "control characters", &LintReport::control},
    {"invisible_characters", "zero-width, soft hyphen or direction marks", &LintReport::invisible},
    {"private_use_characters", "private-use characters", &LintReport::private_use},
    {"literal_specials", "special tokens spelled out, ordinary text here", &LintReport::literals},
    {"invalid_utf8", "bytes that are no UTF-8", &LintReport::broken}};

Json lint_json(const TokenStore& store, const LintReport& r) {
  Json odd = Json::object();
  for (const OddKind& kind : kOddKinds) {
    const OddCharacters& o = r.*kind.member;
    odd[kind.key] = {{"count", o.count}, {"documents", o.documents}, {"first_document", o.first_document}};
  }
  Json top = Json::array();
  for (const TopToken& token : top_tokens(store)) top.push_back({{"id", token.id}, {"count", token.count}});
  return {{"verified", true},
          {"documents", r.documents},
          {"empty_documents", r.empty_documents},
          {"ids_used", r.ids_used},
          {"vocabulary", r.vocabulary},
          {"odd", odd},
          {"train_duplicates", r.train_duplicates},
          {"validation_duplicates", r.validation_duplicates},
          {"leaked_documents", r.leaked_documents},
          {"sampled_runs", r.sampled_runs},
          {"leaked_runs", r.leaked_runs},
          {"overlapping_documents", r.overlapping_documents},
          {"top_tokens", top}};
}

void print_lint(const TokenStore& store, const Tokenizer& tokenizer, const LintReport& r) {
  fmt::print("checksums   right; every id is within the vocabulary\n");
  fmt::print("vocabulary  {} of {} ids occur\n", format_count(r.ids_used), format_count(r.vocabulary));
  std::string top;
  for (const TopToken& token : top_tokens(store))
    top += fmt::format(
        "{}'{}' {:.2f}%", top.empty() ? "" : "  ",
        one_line(tokenizer.token_bytes(static_cast<int32_t>(token.id))),
        100 * static_cast<double>(token.count) / static_cast<double>(store.train.header().tokens));
  fmt::print("frequent    {}\n", top);
  bool odd = false;
  for (const OddKind& kind : kOddKinds) {
    const OddCharacters& o = r.*kind.member;
    if (o.count == 0) continue;
    const bool in_train = o.first_document < store.train.documents();
    fmt::print("odd         {}: {} in {} documents, first in {} {}\n", kind.text, format_count(o.count),
               format_count(o.documents), in_train ? "training document" : "validation document",
               in_train ? o.first_document : o.first_document - store.train.documents());
    odd = true;
  }
  if (!odd) fmt::print("odd         no odd characters\n");
  if (r.empty_documents > 0) fmt::print("empty       {} documents\n", format_count(r.empty_documents));
  fmt::print(
      "duplicates  {} in training, {} in validation{}\n", format_count(r.train_duplicates),
      format_count(r.validation_duplicates),
      r.train_duplicates + r.validation_duplicates > 0 ? "; tril data build --dedup leaves them out" : "");
  const double share =
      r.sampled_runs > 0 ? static_cast<double>(r.leaked_runs) / static_cast<double>(r.sampled_runs) : 0;
  fmt::print(
      "leakage     {} of {} validation documents also in training; {:.2f}% of validation's runs of {} tokens "
      "stand in training ({} documents mostly)\n",
      format_count(r.leaked_documents), format_count(store.validation.documents()), 100 * share, kGram,
      format_count(r.overlapping_documents));
}

}  // namespace

int data_info_command(const Arguments& words) {
  std::string folder;
  bool json = false;
  CommandLine line("data info", "What is in a token store.", "  tril data info book.store");
  line.positional("STORE", folder, "a folder that tril data build made");
  line.flag("--json", json, "one JSON object");
  if (!line.parse(words)) return 0;
  check_use(!folder.empty(), "tril data info: give a store, such as book.store");
  const TokenStore store = open_store(folder);
  const TokenFileHeader& h = store.train.header();
  const Json description = parse_json(store.description);
  if (json) {
    const Json out = {{"vocabulary", h.vocabulary},
                      {"token_bits", 8 * h.token_bytes},
                      {"tokenizer", h.tokenizer},
                      {"begin_of_text", h.begin_of_text},
                      {"end_of_text", h.end_of_text},
                      {"train", side_json(store.train)},
                      {"validation", side_json(store.validation)},
                      {"store", description}};
    std::puts(to_text(out).c_str());
    return 0;
  }
  print_side("training", store.train);
  print_side("validation", store.validation);
  fmt::print("{:<11} {} ids, {} bits each, fingerprint {}\n", "tokenizer", format_count(h.vocabulary),
             8 * h.token_bytes, one_line(h.tokenizer));
  if (!description.is_object()) return 0;
  if (description.value("split", "") == "ends")
    fmt::print("{:<11} the end of each document is for validation: there are few\n", "split");
  const Json sources = description.value("sources", Json::array());
  if (sources.is_array() && !sources.empty() && sources[0].is_string())
    fmt::print("{:<11} {}{}\n", "sources", one_line(sources[0].get<std::string>()),
               sources.size() > 1 ? fmt::format(" and {} more", sources.size() - 1) : "");
  return 0;
}

int data_lint_command(const Arguments& words) {
  std::string folder;
  bool json = false;
  int64_t threads = 0;
  CommandLine line(
      "data lint",
      "Reads a whole store and says what is odd: damage, characters, duplicates, and text of validation\n"
      "that also stands in training.",
      "  tril data lint book.store");
  line.positional("STORE", folder, "a folder that tril data build made");
  line.threads(threads);
  line.flag("--json", json, "one JSON object");
  if (!line.parse(words)) return 0;
  check_use(!folder.empty(), "tril data lint: give a store, such as book.store");
  const TokenStore store = open_store(folder);
  const Tokenizer tokenizer = Tokenizer::load(store.tokenizer_path());
  ThreadPool pool(static_cast<int>(threads));
  const LintReport report = lint_store(store, tokenizer, pool);
  if (json)
    std::puts(to_text(lint_json(store, report)).c_str());
  else
    print_lint(store, tokenizer, report);
  return 0;
}

int data_export_command(const Arguments& words) {
  std::string folder, format, out;
  bool validation = false;
  CommandLine line("data export", "Writes a side of a store for other programs.",
                   "  tril data export book.store --to nanogpt --out train.bin\n"
                   "  tril data export book.store --to nanogpt --validation --out val.bin\n"
                   "  tril data export book.store --to jsonl --out - | head");
  line.positional("STORE", folder, "a folder that tril data build made");
  line.text("--to", format, "FORMAT", "txt, jsonl, npy, nanogpt (.bin) or llmc (a shard)");
  line.text("--out", out, "FILE", "file to write, - for standard output");
  line.flag("--validation", validation, "the validation side (training)");
  if (!line.parse(words)) return 0;
  check_use(!folder.empty() && !format.empty() && !out.empty(),
            "tril data export: give a store, --to FORMAT and --out FILE");
  const TokenStore store = open_store(folder);
  const Tokenizer tokenizer = Tokenizer::load(store.tokenizer_path());
  if (out != "-") refuse_file_of_model(out);
  const ExportFormat to = parse_export_format(format);
  Output file(out);
  export_tokens(validation ? store.validation : store.train, tokenizer, to,
                [&](std::string_view bytes) { file.write(bytes); });
  file.commit();
  return 0;
}

}  // namespace tril::cli
