#include "tril/text/bpe_train.h"

#include <algorithm>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "tril/base/error.h"
#include "tril/text/pretokenizer.h"

namespace tril {
namespace {

// All distinct pieces in one row of symbols, a border between them; a linked list for what is left of each.
// For each pair its count and the places where it starts, so that a merge touches only those.
class Trainer {
 public:
  Trainer(const ByteIds& byte_ids, std::span<const std::string_view> texts) {
    for (size_t byte = 0; byte < 256; ++byte) {
      tokens_[static_cast<size_t>(byte_ids[byte])] = std::string(1, static_cast<char>(byte));
    }
    taken_.insert(tokens_.begin(), tokens_.end());
    lay_out(byte_ids, count_pieces(texts));
    count_pairs();
  }

  std::vector<Merge> train(int64_t count) {
    std::vector<Merge> merges;
    while (std::ssize(merges) < count && !queue_.empty()) {
      const Candidate top = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(top.pair);
      if (found == pairs_.end()) continue;
      const int64_t now = found->second.count;
      if (now < 2) {
        pairs_.erase(found);
      } else if (now < top.count) {
        queue_.push({now, top.pair});  // it lost occurrences to other merges since
      } else {
        const std::vector<uint32_t> places = std::move(found->second.places);
        pairs_.erase(found);
        const Merge merge{left_of(top.pair), right_of(top.pair), static_cast<int32_t>(tokens_.size())};
        if (!add_token(merge)) continue;
        apply(merge, places);
        merges.push_back(merge);
      }
    }
    return merges;
  }

 private:
  static constexpr int32_t kBorder = -1, kGone = -2;
  struct Symbol {
    int32_t id;
    uint32_t word;            // whose count weighs here
    uint32_t previous, next;  // places
  };
  struct Pair {
    int64_t count = 0;
    std::vector<uint32_t> places;  // ascending; some may no longer hold the pair
  };
  struct Candidate {
    int64_t count;
    uint64_t pair;
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  static uint64_t pair_of(int32_t left, int32_t right) {
    return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
  }
  static int32_t left_of(uint64_t pair) { return static_cast<int32_t>(pair >> 32); }
  static int32_t right_of(uint64_t pair) { return static_cast<int32_t>(pair & UINT32_MAX); }

  using Counts = std::unordered_map<std::string_view, int64_t>;
  static Counts count_pieces(std::span<const std::string_view> texts) {
    Counts counts;
    for (const std::string_view text : texts) {
      Pretokenizer().split(text, [&](std::string_view piece) { ++counts[piece]; });
    }
    return counts;
  }

  void lay_out(const ByteIds& byte_ids, const Counts& counts) {
    uint64_t size = 1;
    for (const auto& [piece, count] : counts) size += piece.size() + 1;
    check_use(size < UINT32_MAX, "bpe: {} bytes of distinct words, at most {} fit; train on less text", size,
              UINT32_MAX);
    symbols_.reserve(size);
    const auto place = [&](int32_t id, size_t word) {
      const auto at = static_cast<uint32_t>(symbols_.size());
      symbols_.push_back({id, static_cast<uint32_t>(word), at - 1, at + 1});
    };
    place(kBorder, 0);
    for (const auto& [piece, count] : counts) {
      for (const char byte : piece) place(byte_ids[static_cast<unsigned char>(byte)], weights_.size());
      place(kBorder, weights_.size());
      weights_.push_back(count);
    }
  }

  void count_pairs() {
    for (uint32_t at = 1; at + 1 < symbols_.size(); ++at) change(at, +1);
    for (const auto& [pair, entry] : pairs_) queue_.push({entry.count, pair});
  }

  // Counts the pair that starts at `at` in or out, unless there is none.
  void change(uint32_t at, int sign) {
    const Symbol& symbol = symbols_[at];
    const int32_t right = symbols_[symbol.next].id;
    if (symbol.id < 0 || right < 0) return;
    const uint64_t pair = pair_of(symbol.id, right);
    if (sign > 0) {
      Pair& entry = pairs_[pair];
      entry.count += weights_[symbol.word];
      entry.places.push_back(at);
    } else if (const auto found = pairs_.find(pair); found != pairs_.end()) {
      found->second.count -= weights_[symbol.word];
    }
  }

  bool add_token(const Merge& merge) {
    std::string bytes = tokens_[static_cast<size_t>(merge.left)] + tokens_[static_cast<size_t>(merge.right)];
    if (!taken_.insert(bytes).second) return false;
    tokens_.push_back(std::move(bytes));
    return true;
  }

  void apply(const Merge& merge, const std::vector<uint32_t>& places) {
    created_.clear();
    for (const uint32_t at : places) {
      Symbol& symbol = symbols_[at];
      Symbol& right = symbols_[symbol.next];
      if (symbol.id != merge.left || right.id != merge.right) continue;
      change(symbol.previous, -1);
      change(symbol.next, -1);
      symbol.id = merge.result;
      right.id = kGone;
      symbol.next = right.next;
      symbols_[symbol.next].previous = at;
      create(symbol.previous);
      create(at);
    }
    // A pair with the new token occurs only where this merge made it: counts of queued pairs never rise.
    for (const uint64_t pair : created_) {
      if (const auto found = pairs_.find(pair); found != pairs_.end()) {
        queue_.push({found->second.count, pair});
      }
    }
  }

  void create(uint32_t at) {
    const Symbol& symbol = symbols_[at];
    const int32_t right = symbols_[symbol.next].id;
    if (symbol.id < 0 || right < 0) return;
    created_.insert(pair_of(symbol.id, right));
    change(at, +1);
  }

  std::vector<std::string> tokens_ = std::vector<std::string>(256);
  std::unordered_set<std::string> taken_;
  std::vector<int64_t> weights_;  // how often each distinct piece occurs
  std::vector<Symbol> symbols_;
  std::unordered_map<uint64_t, Pair> pairs_;
  std::priority_queue<Candidate> queue_;
  std::unordered_set<uint64_t> created_;
};

}  // namespace

std::vector<Merge> train_merges(std::span<const std::string_view> texts, const ByteIds& byte_ids,
                                int64_t count) {
  return Trainer(byte_ids, texts).train(count);
}

}  // namespace tril
