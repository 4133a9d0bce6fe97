#include "tril/data/lint.h"

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/data/split.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr int64_t kTaskTokens = int64_t{1} << 18;
constexpr int64_t kMostRuns = int64_t{1} << 20;  // sampled

// Documents [begin, end) of a side, of about kTaskTokens together.
struct Task {
  int64_t begin, end;
};

std::vector<Task> tasks_of(const TokenFile& side) {
  std::vector<Task> tasks;
  int64_t begin = 0;
  for (int64_t i = 0; i < side.documents(); ++i) {
    const bool enough = side.document_begin(i + 1) - side.document_begin(begin) >= kTaskTokens;
    if (!enough && i + 1 < side.documents()) continue;
    tasks.push_back({begin, i + 1});
    begin = i + 1;
  }
  return tasks;
}

std::vector<int32_t> tokens_of(const TokenFile& side, int64_t document) {
  const TokenView view = side.text_of(document);
  std::vector<int32_t> tokens(static_cast<size_t>(view.size()));
  view.copy(0, view.size(), tokens.data());
  return tokens;
}

struct Counter {
  OddCharacters LintReport::*member;
  int64_t here = 0;
};

constexpr size_t kLongestLiteral = 40;  // of a control token's spelling, in bytes behind its "<|"

void count_text(std::string_view text, int64_t document, LintReport& report) {
  Counter counters[] = {{&LintReport::replacement}, {&LintReport::control},  {&LintReport::invisible},
                        {&LintReport::private_use}, {&LintReport::literals}, {&LintReport::broken}};
  for (size_t at = 0; at < text.size();) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x20 && byte < 0x7F) {
      if (byte == '<' && text.substr(at, 2) == "<|")
        counters[4].here += text.substr(at + 2, kLongestLiteral).find("|>") != text.npos;
      ++at;
      continue;
    }
    const int length = utf8_length(text, at);
    if (length == 0) {
      ++counters[5].here;
      ++at;
      continue;
    }
    const char32_t c = utf8_decode(text, at);
    at += static_cast<size_t>(length);
    if (c == '\n' || c == '\t' || c == '\r') continue;
    counters[0].here += c == 0xFFFD;
    counters[1].here += c < 0x20 || (c >= 0x7F && c < 0xA0);
    counters[2].here += (c >= 0x200B && c <= 0x200F) || (c >= 0x202A && c <= 0x202E) ||
                        (c >= 0x2060 && c <= 0x2064) || (c >= 0x2066 && c <= 0x2069) || c == 0xAD ||
                        c == 0xFEFF;
    counters[3].here += (c >= 0xE000 && c <= 0xF8FF) || c >= 0xF0000;
  }
  for (const Counter& counter : counters) {
    if (counter.here == 0) continue;
    OddCharacters& odd = report.*counter.member;
    odd.count += counter.here;
    ++odd.documents;
    if (odd.first_document < 0 || document < odd.first_document) odd.first_document = document;
  }
}

void merge(OddCharacters& into, const OddCharacters& from) {
  into.count += from.count;
  into.documents += from.documents;
  if (from.first_document >= 0 && (into.first_document < 0 || from.first_document < into.first_document))
    into.first_document = from.first_document;
}

void merge(LintReport& into, const LintReport& from) {
  into.empty_documents += from.empty_documents;
  for (const auto member : {&LintReport::replacement, &LintReport::control, &LintReport::invisible,
                            &LintReport::private_use, &LintReport::literals, &LintReport::broken})
    merge(into.*member, from.*member);
}

using Hashes = std::vector<DocumentHash::Value>;

// Texts of a side, and the hash of each of its documents.
Hashes scan_side(const TokenFile& side, int64_t first_number, const Tokenizer& tokenizer, Executor& executor,
                 LintReport& report) {
  const std::vector<Task> tasks = tasks_of(side);
  Hashes hashes(static_cast<size_t>(side.documents()));
  std::vector<LintReport> parts(static_cast<size_t>(executor.threads()));
  executor.run(std::ssize(tasks), [&](int64_t task, int worker) {
    LintReport& part = parts[static_cast<size_t>(worker)];
    for (int64_t i = tasks[static_cast<size_t>(task)].begin; i < tasks[static_cast<size_t>(task)].end; ++i) {
      const std::vector<int32_t> tokens = tokens_of(side, i);
      check_ids(side, side.text_begin(i), tokens, tokenizer);
      part.empty_documents += tokens.empty();
      DocumentHash hash;
      hash.add({reinterpret_cast<const char*>(tokens.data()), 4 * tokens.size()});
      hashes[static_cast<size_t>(i)] = hash.value();
      count_text(tokenizer.decode(tokens), first_number + i, part);
    }
  });
  for (const LintReport& part : parts) merge(report, part);
  return hashes;
}

struct HashOfHash {
  size_t operator()(const DocumentHash::Value& value) const { return value[0]; }
};

// Calls take(hash) for each run of kGram tokens (a polynomial modulo 2^64, mixed).
template <class Take>
void for_each_run(const std::vector<int32_t>& tokens, Take&& take) {
  constexpr uint64_t kBase = 0x9E3779B97F4A7C15;
  uint64_t highest = 1;
  for (int64_t i = 0; i < kGram; ++i) highest *= kBase;
  uint64_t hash = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = hash * kBase + static_cast<uint64_t>(tokens[i]) + 1;
    if (i >= kGram) hash -= highest * (static_cast<uint64_t>(tokens[i - kGram]) + 1);
    if (i + 1 < kGram) continue;
    uint64_t mixed = (hash ^ hash >> 31) * 0xBF58476D1CE4E5B9;
    mixed ^= mixed >> 29;
    take(mixed);
  }
}

void find_leaks(const TokenStore& store, Executor& executor, LintReport& report) {
  uint64_t every = 1;
  while (store.validation.header().tokens / static_cast<int64_t>(every) > kMostRuns) every *= 2;
  std::unordered_set<uint64_t> sampled, found;
  for (int64_t i = 0; i < store.validation.documents(); ++i)
    for_each_run(tokens_of(store.validation, i), [&](uint64_t hash) {
      if (hash % every == 0) sampled.insert(hash);
    });
  const std::vector<Task> tasks = tasks_of(store.train);
  std::mutex lock;
  executor.run(std::ssize(tasks), [&](int64_t task, int) {
    std::vector<uint64_t> here;
    for (int64_t i = tasks[static_cast<size_t>(task)].begin; i < tasks[static_cast<size_t>(task)].end; ++i)
      for_each_run(tokens_of(store.train, i), [&](uint64_t hash) {
        if (hash % every == 0 && sampled.contains(hash)) here.push_back(hash);
      });
    const std::lock_guard<std::mutex> guard(lock);
    found.insert(here.begin(), here.end());
  });
  report.sampled_runs = std::ssize(sampled);
  report.leaked_runs = std::ssize(found);
  for (int64_t i = 0; i < store.validation.documents(); ++i) {
    int64_t runs = 0, leaked = 0;
    for_each_run(tokens_of(store.validation, i), [&](uint64_t hash) {
      if (hash % every != 0) return;
      ++runs;
      leaked += found.contains(hash);
    });
    report.overlapping_documents += runs > 0 && 2 * leaked > runs;
  }
}

}  // namespace

LintReport lint_store(const TokenStore& store, const Tokenizer& tokenizer, Executor& executor) {
  check_use(tokenizer.fingerprint() == store.train.header().tokenizer,
            "{}: the store was built with another tokenizer than this one", printable(store.folder.string()));
  store.train.verify();
  store.validation.verify();
  LintReport report;
  report.documents = store.train.documents() + store.validation.documents();
  report.vocabulary = store.train.header().vocabulary;
  for (int64_t id = 0; id < report.vocabulary; ++id) {
    const auto i = static_cast<size_t>(id);
    report.ids_used += store.train.counts()[i] + store.validation.counts()[i] > 0;
  }
  const Hashes train = scan_side(store.train, 0, tokenizer, executor, report);
  const Hashes validation = scan_side(store.validation, store.train.documents(), tokenizer, executor, report);
  std::unordered_set<DocumentHash::Value, HashOfHash> seen, seen_there;
  for (const DocumentHash::Value& hash : train) report.train_duplicates += !seen.insert(hash).second;
  for (const DocumentHash::Value& hash : validation) {
    report.leaked_documents += seen.contains(hash);
    report.validation_duplicates += !seen_there.insert(hash).second;
  }
  find_leaks(store, executor, report);
  return report;
}

}  // namespace tril
