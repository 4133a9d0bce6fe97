#include "tril/data/build_batches.h"

#include <cmath>

#include "tril/base/error.h"
#include "tril/data/documents.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

constexpr int64_t kBatchBytes = int64_t{8} << 20;

std::string_view content_of(const DocumentPiece& piece) {
  if (!piece.is_tokens) return piece.text;
  return {reinterpret_cast<const char*>(piece.tokens.data()), 4 * piece.tokens.size()};
}

int64_t size_of(const DocumentPiece& piece) {
  return piece.is_tokens ? std::ssize(piece.tokens) : std::ssize(piece.text);
}

// Where a document of `size` is cut for its side; in text the border of a character may lie before.
int64_t cut_of(int64_t size, double validation_fraction) {
  return static_cast<int64_t>(static_cast<double>(size) * (1.0 - validation_fraction));
}

EncodingWork work_of(DocumentPiece piece, Side side) {
  EncodingWork work;
  work.text = std::move(piece.text);
  work.tokens = std::move(piece.tokens);
  work.is_tokens = piece.is_tokens;
  work.side = side;
  piece.text.clear();
  piece.tokens.clear();
  work.origin = std::move(piece);
  return work;
}

}  // namespace

bool HashSet::insert(DocumentHash::Value hash) {
  if (hash == DocumentHash::Value{}) hash[0] = 1;  // zeros are a free slot
  if (3 * size_ >= 2 * std::ssize(slots_)) {
    std::vector<DocumentHash::Value> old(2 * slots_.size());
    old.swap(slots_);
    size_ = 0;
    for (const DocumentHash::Value& value : old)
      if (value != DocumentHash::Value{}) insert(value);
  }
  const size_t mask = slots_.size() - 1;
  size_t slot = hash[0] & mask;
  for (; slots_[slot] != DocumentHash::Value{}; slot = (slot + 1) & mask)
    if (slots_[slot] == hash) return false;
  slots_[slot] = hash;
  ++size_;
  return true;
}

void encode_work(EncodingWork& work, const Tokenizer& tokenizer, const DocumentReader& reader) {
  if (!work.is_tokens) {
    try {
      work.tokens = tokenizer.encode(work.text);
    } catch (const Error& error) {
      throw Error(error.kind(), reader.name_of(work.origin) + ": " + error.what());
    }
  }
  const int32_t begin = tokenizer.begin_of_text();
  if (work.begins && begin >= 0 && (work.tokens.empty() || work.tokens.front() != begin))
    work.tokens.insert(work.tokens.begin(), begin);
}

SplitPlan plan_split(const std::vector<SourceFile>& files, const BuildOptions& options) {
  SplitPlan plan;
  SourceOptions quiet = options.sources;
  if (quiet.on_broken) quiet.on_broken = [](const std::string&) {};
  DocumentReader reader(files, quiet);
  bool ends_needed = false;
  for (const SourceFile& file : files) ends_needed |= file.side == SourceSide::kBySplit;
  ends_needed = ends_needed && options.validation_fraction > 0;
  HashSet seen;
  DocumentHash hash;
  double place = 0;
  int64_t kept = 0;
  bool sides[2] = {};
  DocumentPiece piece;
  while (reader.next(piece)) {
    if (piece.first) {
      plan.sizes.push_back(0);
      hash = {};
      place = split_place(content_of(piece));
    }
    plan.sizes.back() += size_of(piece);
    if (options.deduplicate) hash.add(content_of(piece));
    if (!piece.last) continue;
    const bool dropped = piece.broken || (options.deduplicate && !seen.insert(hash.value()));
    if (dropped) {
      plan.sizes.back() = -1;
      continue;
    }
    ++kept;
    sides[place < options.validation_fraction ? 1 : 0] = true;
    const bool enough = kept >= kFewDocuments && sides[0] && sides[1];
    if (enough || (!ends_needed && kept >= 2)) {
      plan.several = true;
      plan.sizes.clear();
      return plan;
    }
  }
  plan.several = kept > 1;
  plan.by_ends = ends_needed;
  if (!plan.by_ends) plan.sizes.clear();
  return plan;
}

Batches::Batches(std::vector<SourceFile> files, const BuildOptions& options, SplitPlan plan,
                 const BatchState& from, HashSet seen)
    : options_(options),
      plan_(std::move(plan)),
      reader_(std::move(files), options.sources, from.position),
      state_(from),
      seen_(std::move(seen)) {}

std::vector<EncodingWork> Batches::next() {
  std::vector<EncodingWork> out;
  DocumentPiece piece;
  for (int64_t bytes = 0; (bytes < kBatchBytes || out.empty()) && reader_.next(piece);) {
    bytes += std::ssize(content_of(piece)) + 64;
    const SourceSide side = reader_.files()[static_cast<size_t>(piece.file)].side;
    if (piece.first) {
      const bool validation = side == SourceSide::kBySplit
                                  ? split_place(content_of(piece)) < options_.validation_fraction
                                  : side == SourceSide::kValidation;
      state_.side = validation ? kValidationSide : kTrainSide;
      state_.done = 0;
      state_.hash = {};
      ++state_.documents;
    }
    if (plan_.by_ends && side == SourceSide::kBySplit)
      add_by_ends(std::move(piece), out);
    else
      add(std::move(piece), out);
  }
  state_.position = reader_.position();
  return out;
}

bool Batches::is_duplicate(const DocumentPiece& piece) {
  if (!options_.deduplicate) return false;
  state_.hash.add(content_of(piece));
  if (!piece.last || piece.broken) return false;
  const DocumentHash::Value hash = state_.hash.value();
  if (!seen_.insert(hash)) {
    ++state_.duplicates;
    return true;
  }
  new_hashes_.push_back(hash);
  return false;
}

void Batches::add(DocumentPiece piece, std::vector<EncodingWork>& out) {
  const bool duplicate = is_duplicate(piece);
  if (piece.first && piece.last && (duplicate || piece.broken)) return;
  const bool first = piece.first, last = piece.last, drops = duplicate || piece.broken;
  out.push_back(work_of(std::move(piece), state_.side));
  out.back().begins = first;
  out.back().ends = last;
  out.back().drops = last && drops;
}

// Documents that are left out are known here before.
void Batches::add_by_ends(DocumentPiece piece, std::vector<EncodingWork>& out) {
  const auto index = static_cast<size_t>(state_.documents - 1);
  const int64_t size = index < plan_.sizes.size() ? plan_.sizes[index] : -1;
  is_duplicate(piece);
  const int64_t begin = state_.done, here = size_of(piece);
  state_.done += here;
  if (size < 0) return;
  int64_t cut = cut_of(size, options_.validation_fraction) - begin;
  const bool first = piece.first, last = piece.last, inside = cut > 0;
  if (!piece.is_tokens && cut > 0 && cut < here)
    while (cut > 0 && (static_cast<unsigned char>(piece.text[static_cast<size_t>(cut)]) & 0xC0) == 0x80)
      --cut;
  if (cut >= here) {  // all of it for training
    out.push_back(work_of(std::move(piece), kTrainSide));
    out.back().begins = first;
    // A cut that falls on the border of two pieces, or on the end, ends the document here.
    out.back().ends = last || cut == here;
    return;
  }
  // A cut within the first character of a later piece ends what the pieces before have for training.
  if (cut > 0 || (inside && begin > 0)) {
    DocumentPiece before = piece;
    if (piece.is_tokens) {
      before.tokens.resize(static_cast<size_t>(cut));
      piece.tokens.erase(piece.tokens.begin(), piece.tokens.begin() + cut);
    } else {
      before.text.resize(static_cast<size_t>(cut));
      piece.text.erase(0, static_cast<size_t>(cut));
    }
    piece.place += cut;
    out.push_back(work_of(std::move(before), kTrainSide));
    out.back().begins = first;
    out.back().ends = true;
  }
  out.push_back(work_of(std::move(piece), kValidationSide));
  out.back().begins = first && cut <= 0;
  out.back().ends = last;
}

}  // namespace tril
