// Learning merges: the most frequent pair of neighbours becomes a token, again and again (Sennrich et al.
// 2016).
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "tril/base/parallel.h"
#include "tril/text/bpe.h"

namespace tril {

struct BpeTrainOptions {
  int64_t merges = 0;     // at most as many
  int64_t min_count = 2;  // of a pair that is merged
  Pretokenizer pretokenizer;
  // Different pieces that are kept. Beyond twice as many, looked at after each 256 bytes of text a piece, the
  // rarest are forgotten. Memory is about 64 bytes a piece while counting, then 16 for each of its bytes.
  int64_t most_pieces = 2'000'000;
};

// Counts the pieces of texts of any size, in bounded memory and by all threads of the executor, then learns.
// The merges depend on options and texts alone: not on threads, nor, until rare pieces are forgotten, on how
// a text was cut for add().
class BpeTrainer {
 public:
  BpeTrainer(BpeTrainOptions options, Executor& executor);
  ~BpeTrainer();
  BpeTrainer(const BpeTrainer&) = delete;
  BpeTrainer& operator=(const BpeTrainer&) = delete;

  // A part of a document: a piece may go on in the next part. With an own pattern or none, a document is kept
  // until it ends.
  void add(std::string_view part);
  void end_document();

  int64_t distinct_pieces();   // counted so far
  int64_t forgotten_pieces();  // rare ones that made room for others

  // Ends the document. The results of the merges are numbered from 256; byte_ids are a permutation of 0 to
  // 255. The most frequent pair is merged next, the smaller (left, right) among equals; pairs that spell a
  // token that exists are left alone. Throws kUse for 4 GiB of distinct pieces.
  std::vector<Merge> train(const ByteIds& byte_ids);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tril
