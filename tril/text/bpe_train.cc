#include "tril/text/bpe_train.h"

#include <algorithm>
#include <string>
#include <unordered_set>

#include "tril/base/error.h"
#include "tril/text/bpe_count.h"
#include "tril/text/bpe_pairs.h"

namespace tril {
namespace {

constexpr size_t kBlock = size_t{1} << 25;  // counted at a time, by all threads
constexpr size_t kChunk = size_t{1} << 18;  // by one thread
constexpr size_t kLookEvery = 256;  // bytes of text for each of most_pieces, then their number is looked at

}  // namespace

struct BpeTrainer::Impl {
  BpeTrainOptions options;
  Executor& executor;
  std::vector<PieceCounts> counts;  // by worker; [0] has those of finished stretches too
  std::string pending;              // the end of the text so far, not yet counted
  size_t since_look = 0;
  int64_t forgotten = 0;

  Impl(BpeTrainOptions from, Executor& by)
      : options(std::move(from)), executor(by), counts(static_cast<size_t>(by.threads())) {}

  void add(std::string_view part) {
    while (!part.empty()) {
      // What is pending grows to a block, and is counted; text that is large is counted where it lies.
      if (pending.empty()) {
        const size_t cut = safe_cut(part);
        count(part.substr(0, cut));
        part.remove_prefix(cut);
        if (part.size() < kBlock || cut == 0) {
          pending = part;
          return;
        }
      } else {
        const size_t taken = std::min(part.size(), std::max(kBlock, 2 * pending.size()) - pending.size());
        pending.append(part.substr(0, taken));
        part.remove_prefix(taken);
        if (pending.size() < kBlock) return;
        const size_t cut = options.pretokenizer.last_safe_cut(pending);
        count(std::string_view(pending).substr(0, cut));
        pending.erase(0, cut);
      }
    }
  }

  // How much of a text to count now, at most a block where that is possible.
  size_t safe_cut(std::string_view text) const {
    if (text.size() < kBlock) return 0;
    for (size_t size = kBlock; size < text.size(); size *= 2) {
      if (const size_t cut = options.pretokenizer.last_safe_cut(text.substr(0, size))) return cut;
    }
    return options.pretokenizer.last_safe_cut(text);
  }

  void count(std::string_view text) {
    if (text.empty()) return;
    std::vector<std::string_view> chunks;
    const size_t size = text.size();
    while (!text.empty()) {
      size_t cut = text.size() <= kChunk ? 0 : options.pretokenizer.last_safe_cut(text.substr(0, kChunk));
      if (cut == 0) cut = text.size() <= kChunk ? text.size() : first_cut(text);
      chunks.push_back(text.substr(0, cut));
      text.remove_prefix(cut);
    }
    parallel_for(executor, std::ssize(chunks), 1, [&](int64_t begin, int64_t, int worker) {
      counts[static_cast<size_t>(worker)].count(options.pretokenizer, chunks[static_cast<size_t>(begin)]);
    });
    since_look += size;
    if (since_look / kLookEvery >= static_cast<size_t>(options.most_pieces)) look();
  }

  // Where a chunk that holds no cut may end.
  size_t first_cut(std::string_view text) const {
    for (size_t size = 2 * kChunk; size < text.size(); size *= 2) {
      if (const size_t cut = options.pretokenizer.last_safe_cut(text.substr(0, size))) return cut;
    }
    return text.size();
  }

  void gather() {
    for (size_t worker = 1; worker < counts.size(); ++worker) {
      counts[0].add(counts[worker]);
      counts[worker] = PieceCounts();
    }
  }

  void look() {
    since_look = 0;
    gather();
    const auto most = static_cast<size_t>(options.most_pieces);
    if (counts[0].size() <= 2 * most) return;
    const size_t before = counts[0].size();
    for (int64_t times = 2; counts[0].size() > most; ++times) counts[0].keep_at_least(times);
    forgotten += static_cast<int64_t>(before - counts[0].size());
  }

  void end_document() {
    count(pending);
    pending.clear();
  }

  std::vector<Merge> train(const ByteIds& byte_ids) {
    end_document();
    gather();
    size_t symbols = 1;
    counts[0].each([&](std::string_view piece, int64_t) { symbols += piece.size() + 1; });
    check_use(symbols < UINT32_MAX, "bpe: {} bytes of distinct pieces, at most {} fit; train on less text",
              symbols, UINT32_MAX);
    PairMerger pairs(options.min_count, symbols, 256 + static_cast<size_t>(options.merges));
    counts[0].each([&](std::string_view piece, int64_t times) { pairs.add_word(piece, byte_ids, times); });
    counts[0] = PieceCounts();
    pairs.count_pairs();
    return learn(pairs, byte_ids);
  }

  std::vector<Merge> learn(PairMerger& pairs, const ByteIds& byte_ids) const {
    std::vector<std::string> tokens(256);
    for (size_t byte = 0; byte < 256; ++byte) {
      tokens[static_cast<size_t>(byte_ids[byte])] = std::string(1, static_cast<char>(byte));
    }
    std::unordered_set<std::string> taken(tokens.begin(), tokens.end());
    std::vector<Merge> merges;
    while (std::ssize(merges) < options.merges) {
      const PairMerger::Top top = pairs.pop();
      if (top.count == 0) break;
      std::string bytes = tokens[static_cast<size_t>(top.left)] + tokens[static_cast<size_t>(top.right)];
      if (!taken.insert(bytes).second) continue;
      const Merge merge{top.left, top.right, static_cast<int32_t>(tokens.size())};
      tokens.push_back(std::move(bytes));
      pairs.apply(merge);
      merges.push_back(merge);
    }
    return merges;
  }
};

BpeTrainer::BpeTrainer(BpeTrainOptions options, Executor& executor) {
  check_use(options.merges >= 0 && options.merges <= INT32_MAX - 256, "bpe: {} merges are impossible",
            options.merges);
  check_use(options.min_count >= 1, "bpe: a minimum count of {} is impossible; at least 1",
            options.min_count);
  check_use(options.most_pieces >= 1, "bpe: {} pieces are too few", options.most_pieces);
  impl_ = std::make_unique<Impl>(std::move(options), executor);
}
BpeTrainer::~BpeTrainer() = default;

void BpeTrainer::add(std::string_view part) { impl_->add(part); }
void BpeTrainer::end_document() { impl_->end_document(); }
int64_t BpeTrainer::distinct_pieces() {
  impl_->gather();
  return static_cast<int64_t>(impl_->counts[0].size());
}
int64_t BpeTrainer::forgotten_pieces() { return impl_->forgotten; }
std::vector<Merge> BpeTrainer::train(const ByteIds& byte_ids) { return impl_->train(byte_ids); }

}  // namespace tril
