#include "tril/data/source_tokenizer.h"

#include "tril/data/build_batches.h"
#include "tril/text/bpe_train.h"
#include "tril/text/utf8.h"

namespace tril {

Tokenizer characters_of(const std::vector<SourceFile>& files, const SourceOptions& options,
                        bool with_end_of_text) {
  std::vector<bool> seen(0x110000);
  DocumentReader reader(files, options);
  DocumentPiece piece;
  while (reader.next(piece)) {
    const std::string_view text = piece.text;
    for (size_t at = 0; at < text.size(); at += static_cast<size_t>(utf8_length(text, at)))
      seen[utf8_decode(text, at)] = true;
  }
  std::string all;
  for (char32_t c = 0; c < seen.size(); ++c)
    if (seen[c]) utf8_append(all, c);
  const std::string_view view = all;
  return Tokenizer::characters(std::span(&view, 1), with_end_of_text);
}

Tokenizer train_bpe_on(const std::vector<SourceFile>& files, const SourceOptions& options,
                       double validation_fraction, int64_t vocabulary, int64_t most_bytes,
                       Executor& executor) {
  BuildOptions build;
  build.sources = options;
  build.validation_fraction = validation_fraction;
  Batches batches(files, build, plan_split(files, build), {}, {});
  return Tokenizer::train_bpe({.vocabulary = vocabulary}, executor, [&](BpeTrainer& trainer) {
    for (int64_t bytes = 0; bytes < most_bytes;) {
      const std::vector<EncodingWork> works = batches.next();
      if (works.empty()) return;
      for (const EncodingWork& work : works) {
        if (work.side != kTrainSide) continue;
        bytes += std::ssize(work.text);
        trainer.add(work.text);
        if (work.ends) trainer.end_document();
      }
    }
  });
}

}  // namespace tril
