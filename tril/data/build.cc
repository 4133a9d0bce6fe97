#include "tril/data/build.h"

#include <algorithm>
#include <chrono>
#include <optional>

#include "tril/base/error.h"
#include "tril/base/printable.h"
#include "tril/containers/json.h"
#include "tril/data/build_batches.h"
#include "tril/data/messages.h"
#include "tril/data/token_file_writer.h"

namespace tril {
namespace {

constexpr int64_t kEncodeBytes = int64_t{64} << 10;  // of a task, at least
constexpr double kSecondsBetweenSaves = 5;
constexpr int64_t kLongPiece = int64_t{64} << 20;

// Whether texts that are cut where piece_end() cuts have the tokens of the whole: not so without a pattern
// that splits words, or with a space that is put in front, as SentencePiece does.
bool encodes_in_pieces(const Tokenizer& tokenizer) {
  const Tokenizer::Kind kind = tokenizer.kind();
  if (kind == Tokenizer::Kind::kCharacter || kind == Tokenizer::Kind::kByte) return true;
  const auto equal = [&](std::string_view first, std::string_view second) {
    std::vector<int32_t> parts = tokenizer.encode(first);
    tokenizer.encode(second, parts);
    return parts == tokenizer.encode(std::string(first) + std::string(second));
  };
  return equal("the\n", "the") && equal("in", " the") && equal("end.\n", "The") && equal("on", " a");
}

// What a build is of: it goes on only with the same.
Json identity_of(const std::vector<SourceFile>& files, const BuildOptions& o) {
  Json list = Json::array();
  for (const SourceFile& file : files) {
    std::error_code unknown;
    const auto size = std::filesystem::file_size(file.path, unknown);
    const auto time = std::filesystem::last_write_time(file.path, unknown).time_since_epoch().count();
    list.push_back({file.path.string(), static_cast<int>(file.format), static_cast<int>(file.side),
                    unknown ? Json() : Json(size), unknown ? Json() : Json(time)});
  }
  return {{"format", 2},
          {"tokenizer", o.identity},
          {"separator", o.sources.separator},
          {"field", o.sources.field},
          {"encoding", static_cast<int>(o.sources.encoding)},
          {"skip_broken", static_cast<bool>(o.sources.on_broken)},
          {"validation_fraction", o.validation_fraction},
          {"deduplicate", o.deduplicate},
          {"piece_bytes", o.sources.piece_bytes},
          {"sources", list}};
}

// All that a build needs to go on; written after the tokens that it counts are on the disk.
struct SavedState {
  BatchState batches;
  SplitPlan plan;
  TokenFileWriter::Kept kept[2];
  int64_t text_bytes[2] = {}, open_bytes = 0, hashes = 0;
};

Json to_json(const TokenFileWriter::Kept& kept) { return {kept.tokens, kept.documents, kept.document_begin}; }

Json to_json(const SavedState& s) {
  const ReaderPosition& p = s.batches.position;
  return {{"position", {p.file, p.offset, p.line, p.in_document, p.skipped_empty, p.skipped_broken}},
          {"documents", s.batches.documents},
          {"side", static_cast<int>(s.batches.side)},
          {"done", s.batches.done},
          {"hash", s.batches.hash.state()},
          {"duplicates", s.batches.duplicates},
          {"plan", {s.plan.several, s.plan.by_ends, s.plan.sizes}},
          {"train", to_json(s.kept[0])},
          {"validation", to_json(s.kept[1])},
          {"text_bytes", {s.text_bytes[0], s.text_bytes[1], s.open_bytes}},
          {"hashes", s.hashes}};
}

SavedState state_from(const Json& json) {
  SavedState s;
  const Json& p = json.at("position");
  s.batches.position = {p.at(0), p.at(1), p.at(2), p.at(3), p.at(4), p.at(5)};
  s.batches.documents = json.at("documents");
  s.batches.side = json.at("side") == 1 ? kValidationSide : kTrainSide;
  s.batches.done = json.at("done");
  s.batches.hash.restore(json.at("hash").get<std::array<uint64_t, 5>>());
  s.batches.duplicates = json.at("duplicates");
  s.plan = {json.at("plan").at(0), json.at("plan").at(1), json.at("plan").at(2)};
  const auto kept = [&](const char* name) {
    const Json& k = json.at(name);
    return TokenFileWriter::Kept{k.at(0), k.at(1), k.at(2)};
  };
  s.kept[0] = kept("train");
  s.kept[1] = kept("validation");
  for (int i = 0; i < 2; ++i) s.text_bytes[i] = json.at("text_bytes").at(static_cast<size_t>(i));
  s.open_bytes = json.at("text_bytes").at(2);
  s.hashes = json.at("hashes");
  return s;
}

// What can be read once as files: they are read twice where there are few documents.
void spool_streams(std::vector<SourceFile>& files, const Path& folder) {
  for (size_t i = 0; i < files.size(); ++i) {
    Path& path = files[i].path;
    if (!is_read_once(path)) continue;
    InputFile input = path == "-" ? InputFile::standard_input() : InputFile(path);
    make_directories(folder);
    GrowingFile spool(folder / std::to_string(i), 0);
    std::vector<char> buffer(size_t{1} << 20);
    while (const size_t n = input.read(buffer)) spool.write(std::as_bytes(std::span(buffer).first(n)));
    path = folder / std::to_string(i);
  }
}

class Build {
 public:
  Build(const std::vector<Path>& sources, const BuildOptions& options, const Path& out, Executor& executor,
        const std::function<bool(const BuildProgress&)>& go_on)
      : o_(options), out_(out.lexically_normal()), executor_(executor), go_on_(go_on) {
    if (!out_.has_filename()) out_ = out_.parent_path();
    folder_ = out_;
    folder_ += ".building";
    files_ = find_sources(sources, o_.sources);
    for (const SourceFile& file : files_)
      check_use(!holds_conversations(file, o_.sources),
                "{}: holds conversations; a store does not say which tokens are learned. tril train reads "
                "such a file as it is, tril data show shows it; --field NAME builds a store of one text of "
                "each line",
                printable(file.path.string()));
    check_use(!std::filesystem::exists(out_), "{}: is there already; remove it, or give another --out",
              printable(out_.string()));
    make_directories(folder_);
    description_.emplace(folder_ / "store.json");  // nobody else builds here
  }

  BuildResult run(const MakeTokenizer& make_tokenizer) {
    try {
      prepare(make_tokenizer);
      go();
    } catch (...) {
      if (!may_go_on_) remove_begun();
      throw;
    }
    return result_;
  }

 private:
  void prepare(const MakeTokenizer& make_tokenizer) {
    bool read_once = false;
    for (const SourceFile& file : files_) read_once |= is_read_once(file.path);
    identity_ = identity_of(files_, o_);
    const std::optional<SavedState> saved = read_once ? std::nullopt : load();
    if (!saved) {
      clear();
      spool_streams(files_, folder_ / "spooled");
      tokenizer_.emplace(make_tokenizer(files_));
      tokenizer_->save(folder_ / "tokenizer.json");
    } else {
      result_.resumed = may_go_on_ = true;
      tokenizer_.emplace(Tokenizer::load(folder_ / "tokenizer.json"));
    }
    o_.sources = options_for(*tokenizer_, std::move(o_.sources));
    start(saved);
  }

  // What is read runs a batch ahead of what is encoded and written.
  void go() {
    std::vector<EncodingWork> current = batches_->next();
    auto saved_at = std::chrono::steady_clock::now();
    while (!current.empty()) {
      const BatchState after = batches_->state();
      const std::vector<DocumentHash::Value> hashes = batches_->take_hashes();
      std::vector<EncodingWork> next = encode_and_read(current);
      write(current, hashes);
      const bool stop = !go_on_(progress(after));
      const std::chrono::duration<double> since = std::chrono::steady_clock::now() - saved_at;
      if (stop || since.count() > kSecondsBetweenSaves) {
        save(after);
        may_go_on_ = true;
        saved_at = std::chrono::steady_clock::now();
      }
      if (stop && !next.empty()) return;
      current = std::move(next);
    }
    finish();
  }

  bool load_fits(const Json& json) const {
    return json.is_object() && json.contains("identity") && to_text(json["identity"]) == to_text(identity_);
  }

  std::optional<SavedState> load() {
    const Path path = folder_ / "progress.json";
    if (!std::filesystem::exists(path)) return std::nullopt;
    const Json json = parse_json(read_text_file(path));
    if (!load_fits(json)) {
      result_.started_anew = true;
      return std::nullopt;
    }
    try {
      return state_from(json.at("state"));
    } catch (const Json::exception&) {
      result_.started_anew = true;
      return std::nullopt;
    }
  }

  void clear() {
    for (const char* name : kParts) remove_tree(folder_ / name);
  }

  // After a failure with nothing that the same command could go on with.
  void remove_begun() noexcept {
    for (std::optional<TokenFileWriter>& writer : writers_) writer.reset();
    hashes_.reset();
    std::error_code ignored;
    for (const char* name : kParts) std::filesystem::remove_all(folder_ / name, ignored);
    description_.reset();
    std::filesystem::remove(folder_, ignored);  // empty, unless another build has begun there
  }

  void start(const std::optional<SavedState>& saved) {
    SavedState s = saved.value_or(SavedState());
    if (!saved) s.plan = plan_split(files_, o_);
    plan_ = s.plan;
    end_of_text_ = end_of_documents(*tokenizer_, plan_.several);
    TokenFileHeader header;
    header.token_bytes = tokenizer_->vocabulary() <= 65536 ? 2 : 4;
    header.vocabulary = tokenizer_->vocabulary();
    header.end_of_text = end_of_text_;
    header.begin_of_text = tokenizer_->begin_of_text();
    header.tokenizer = tokenizer_->fingerprint();
    writers_[0].emplace(folder_ / "train.tokens", header, s.kept[0]);
    writers_[1].emplace(folder_ / "validation.tokens", header, s.kept[1]);
    std::copy_n(s.text_bytes, 2, text_bytes_);
    open_bytes_ = s.open_bytes;
    HashSet seen;
    if (o_.deduplicate) {
      hashes_.emplace(folder_ / "hashes", 16 * s.hashes);
      const MappedFile file(folder_ / "hashes");
      for (int64_t i = 0; i < s.hashes; ++i) {
        DocumentHash::Value value;
        std::memcpy(&value, file.bytes().data() + 16 * i, 16);
        seen.insert(value);
      }
    }
    batches_.emplace(files_, o_, plan_, s.batches, std::move(seen));
    if (!saved) save(s.batches);
  }

  // Encodes the works and reads those that follow. Tasks are cut by size, never by threads.
  std::vector<EncodingWork> encode_and_read(std::vector<EncodingWork>& works) {
    std::vector<size_t> begins = {0};
    int64_t bytes = 0;
    for (size_t i = 0; i < works.size(); ++i) {
      bytes += std::ssize(works[i].text);
      if (bytes < kEncodeBytes || i + 1 == works.size()) continue;
      begins.push_back(i + 1);
      bytes = 0;
    }
    begins.push_back(works.size());
    std::vector<EncodingWork> next;
    executor_.run(std::ssize(begins), [&](int64_t task, int) {
      if (task == 0) {
        next = batches_->next();
        return;
      }
      const auto t = static_cast<size_t>(task);
      for (size_t i = begins[t - 1]; i < begins[t]; ++i)
        encode_work(works[i], *tokenizer_, batches_->reader());
    });
    return next;
  }

  void write(const std::vector<EncodingWork>& works, const std::vector<DocumentHash::Value>& hashes) {
    for (const EncodingWork& work : works) {
      TokenFileWriter& writer = *writers_[work.side];
      writer.append(work.tokens);
      const int64_t bytes = text_bytes_of(work);
      text_bytes_[work.side] += bytes;
      open_bytes_ += bytes;
      if (!work.ends) continue;
      if (work.drops) {
        writer.drop_document();
        text_bytes_[work.side] -= open_bytes_;
      } else {
        if (end_of_text_ >= 0) writer.append(std::span(&end_of_text_, 1));
        writer.end_document();
      }
      open_bytes_ = 0;
    }
    if (hashes_) hashes_->write(std::as_bytes(std::span(hashes)));
  }

  int64_t text_bytes_of(const EncodingWork& work) const {
    if (!work.is_tokens) return std::ssize(work.text);
    int64_t bytes = 0;
    for (const int32_t id : work.tokens) bytes += std::ssize(tokenizer_->token_bytes(id));
    return bytes;
  }

  BuildProgress progress(const BatchState& after) {
    result_.progress = {batches_->reader().bytes_read(), batches_->reader().bytes_total(),
                        after.documents - after.duplicates, text_bytes_[0] + text_bytes_[1],
                        writers_[0]->kept().tokens + writers_[1]->kept().tokens};
    return result_.progress;
  }

  void save(const BatchState& after) {
    SavedState s;
    s.batches = after;
    s.plan = plan_;
    for (int side = 0; side < 2; ++side) {
      writers_[side]->sync();
      s.kept[side] = writers_[side]->kept();
      s.text_bytes[side] = text_bytes_[side];
    }
    s.open_bytes = open_bytes_;
    if (hashes_) {
      hashes_->sync();
      s.hashes = hashes_->size() / 16;
    }
    write_file_atomic(folder_ / "progress.json", to_text({{"identity", identity_}, {"state", to_json(s)}}));
  }

  void finish() {
    const BatchState& end = batches_->state();
    progress(end);
    result_.train_tokens = writers_[0]->kept().tokens;
    result_.validation_tokens = writers_[1]->kept().tokens;
    result_.train_documents = writers_[0]->kept().documents;
    result_.validation_documents = writers_[1]->kept().documents;
    result_.duplicates = end.duplicates;
    result_.skipped_empty = end.position.skipped_empty;
    result_.skipped_broken = end.position.skipped_broken;
    result_.split_by_ends = plan_.by_ends;
    may_go_on_ = false;
    check_data(result_.train_tokens + result_.validation_tokens > 0,
               "there is no document to build a store of: {} were empty, {} broken", result_.skipped_empty,
               result_.skipped_broken);
    check_data(result_.train_tokens >= 2,
               "there are {} tokens to train on and {} for validation, but a model learns from two at least; "
               "give more text, or --val-fraction 0",
               result_.train_tokens, result_.validation_tokens);
    may_go_on_ = true;
    for (int side = 0; side < 2; ++side) writers_[side]->finish(executor_, text_bytes_[side]);
    describe();
    rename_durably(folder_, out_);
    for (const char* name :
         {"progress.json", "hashes", "spooled", "train.tokens.ends", "validation.tokens.ends"})
      remove_tree(out_ / name);
    result_.finished = true;
  }

  void describe() {
    const TokenFile train(folder_ / "train.tokens"), validation(folder_ / "validation.tokens");
    Json sources = Json::array();
    for (const Json& source : identity_["sources"]) sources.push_back(source[0]);
    const int64_t documents = plan_.by_ends ? std::max(result_.train_documents, result_.validation_documents)
                                            : result_.train_documents + result_.validation_documents;
    const Json json = {{"format", "tril token store 1"},
                       {"fingerprint", token_fingerprint(train.tokens(), validation.tokens(),
                                                         [&] {
                                                           train.forget();
                                                           validation.forget();
                                                         })},
                       {"tokenizer", tokenizer_->kind_name()},
                       {"documents", documents},
                       {"split", plan_.by_ends ? "ends" : "documents"},
                       {"validation_fraction", o_.validation_fraction},
                       {"deduplicated", o_.deduplicate},
                       {"duplicates", result_.duplicates},
                       {"skipped_empty", result_.skipped_empty},
                       {"skipped_broken", result_.skipped_broken},
                       {"sources", sources}};
    description_->write(to_text(json, 2) + "\n");
    description_->commit();
  }

  static constexpr const char* kParts[] = {"progress.json",     "train.tokens",           "train.tokens.ends",
                                           "validation.tokens", "validation.tokens.ends", "hashes",
                                           "spooled",           "tokenizer.json"};

  BuildOptions o_;
  Path out_, folder_;
  Executor& executor_;
  const std::function<bool(const BuildProgress&)>& go_on_;
  std::vector<SourceFile> files_;
  std::optional<AtomicFile> description_;
  Json identity_;
  std::optional<Tokenizer> tokenizer_;
  SplitPlan plan_;
  int32_t end_of_text_ = -1;
  std::optional<Batches> batches_;
  std::optional<TokenFileWriter> writers_[2];
  std::optional<GrowingFile> hashes_;
  int64_t text_bytes_[2] = {}, open_bytes_ = 0;
  bool may_go_on_ = false;  // there is a state that the same command goes on from
  BuildResult result_;
};

}  // namespace

SourceOptions options_for(const Tokenizer& tokenizer, SourceOptions options) {
  options.vocabulary = tokenizer.vocabulary();
  options.end_of_text = tokenizer.end_of_text();
  std::vector<bool> undefined(static_cast<size_t>(options.vocabulary));
  for (size_t id = 0; id < undefined.size(); ++id)
    undefined[id] = !tokenizer.is_defined(static_cast<int32_t>(id));
  options.undefined.clear();
  if (std::find(undefined.begin(), undefined.end(), true) != undefined.end())
    options.undefined = std::move(undefined);
  if (!encodes_in_pieces(tokenizer)) options.piece_bytes = std::max(options.piece_bytes, kLongPiece);
  return options;
}

int32_t end_of_documents(const Tokenizer& tokenizer, bool several) {
  return several && tokenizer.end_of_text() != tokenizer.begin_of_text() ? tokenizer.end_of_text() : -1;
}

BuildResult build_token_store(const std::vector<Path>& sources, const MakeTokenizer& make_tokenizer,
                              const BuildOptions& options, const Path& out, Executor& executor,
                              const std::function<bool(const BuildProgress&)>& go_on) {
  return Build(sources, options, out, executor, go_on).run(make_tokenizer);
}

}  // namespace tril
