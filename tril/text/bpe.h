// Byte-pair encoding over ids (Sennrich, Haddow, Birch, "Neural machine translation of rare words with
// subword units", ACL 2016, section 3.2): applying merges. bpe_train.h learns them.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tril/text/pretokenizer.h"

namespace tril {

// The pair (left, right) becomes `result`. A merge's rank is its place in the list: lower ranks first.
struct Merge {
  int32_t left = 0, right = 0, result = 0;
  bool operator==(const Merge&) const = default;
};

inline constexpr int32_t kMostBpeIds = (1 << 21) - 1;  // ids in merges are below it

using ByteIds = std::array<int32_t, 256>;  // the id of each byte

struct BpeOptions {
  Pretokenizer pretokenizer;
  // A piece that is a token becomes its id, also where merges would not lead to it ("ignore_merges", and what
  // tiktoken does). Otherwise tokens that merges do not reach are never used.
  bool whole_pieces = false;
};

// All that decides ids. In each piece the adjacent pair of the lowest rank is merged, the leftmost among
// equals, until none merges; the time is linear in the text, but n log n for a piece of n bytes.
class BpeModel {
 public:
  // tokens[id] is the bytes of an id, empty for one that no text becomes. Throws kData for a merge with an
  // id of kMostBpeIds or more, and for more than 2^22 - 2 merges.
  BpeModel(std::span<const std::string> tokens, const ByteIds& byte_ids, std::span<const Merge> merges,
           BpeOptions options = {});
  BpeModel(BpeModel&&) noexcept;
  BpeModel& operator=(BpeModel&&) noexcept;
  ~BpeModel();

  // Appends the ids of `text`. Thread-safe; encoders and what they remember are kept for later calls, one for
  // each call at the same time.
  void encode(std::string_view text, std::vector<int32_t>& out) const;
  const Pretokenizer& pretokenizer() const;

 private:
  friend class BpeEncoder;
  struct Impl;
  std::unique_ptr<const Impl> impl_;
};

// Encodes with a memory of its own for frequent pieces, about 4 MiB whatever the text. For one thread at a
// time; the model must outlive it, and may move.
class BpeEncoder {
 public:
  explicit BpeEncoder(const BpeModel& model);
  BpeEncoder(BpeEncoder&&) noexcept;
  ~BpeEncoder();
  void encode(std::string_view text, std::vector<int32_t>& out);  // appends

 private:
  friend class BpeModel;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// Encodes a text that arrives in blocks: together the ids are those of the whole text, wherever the blocks
// end. Holds back what follows the last place where the text may be cut, usually a word or two; with own
// patterns and without one all of it until finish().
class BpeStream {
 public:
  explicit BpeStream(const BpeModel& model) : model_(model) {}
  void push(std::string_view block, std::vector<int32_t>& out);  // appends
  void finish(std::vector<int32_t>& out);                        // appends; then a new text may begin

 private:
  const BpeModel& model_;
  std::string pending_;
  size_t uncut_ = 0;  // bytes of pending_ that were found to have no place to cut
};

}  // namespace tril
