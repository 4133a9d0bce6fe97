#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cli/bench.h"
#include "tril/base/error.h"
#include "tril/base/files.h"
#include "tril/text/bpe_train.h"
#include "tril/text/tokenizer.h"

namespace tril::cli {
namespace {

// A file of this process alone, which goes away with the object.
class TemporaryFile {
 public:
  TemporaryFile()
      : path_(std::filesystem::temp_directory_path() / fmt::format("tril-bench-{}.json", getpid())) {}
  ~TemporaryFile() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const Path& path() const { return path_; }

 private:
  Path path_;
};

}  // namespace

void bench_tokenizer(const BenchOptions& options, Executor& executor) {
  std::vector<MappedFile> files;
  std::vector<std::string_view> texts;
  double megabytes = 0;
  for (const std::string& name : options.files) {
    files.emplace_back(Path(name));
    texts.push_back(files.back().text());
    check_data(!texts.back().empty(), "tril bench tokenizer: {} is empty", name);
    megabytes += 1e-6 * static_cast<double>(texts.back().size());
  }
  BenchTable table(options.json);
  const TemporaryFile trained;
  Path path(options.tokenizer);
  if (options.tokenizer.empty()) {
    const double start = now();
    const Tokenizer tokenizer =
        Tokenizer::train_bpe({.vocabulary = options.vocabulary}, executor, [&](BpeTrainer& trainer) {
          for (const std::string_view text : texts) {
            trainer.add(text);
            trainer.end_document();
          }
        });
    table.row({{"file", "all"},
               {"mb", megabytes},
               {"vocabulary", tokenizer.vocabulary()},
               {"threads", executor.threads()},
               {"train_mb_per_s", megabytes / (now() - start)}});
    tokenizer.save(trained.path());
    path = trained.path();
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const double mb = 1e-6 * static_cast<double>(texts[i].size());
    std::vector<double> first, again, back;
    std::vector<int32_t> ids;  // its memory is touched once, as a caller's who goes through many texts
    const double end = now() + options.seconds;
    while (first.size() < 5 || (now() < end && first.size() < 100)) {
      const Tokenizer tokenizer = Tokenizer::load(path);
      tokenizer.encode("a");
      for (std::vector<double>* times : {&first, &again}) {
        ids.clear();
        const double start = now();
        tokenizer.encode(texts[i], ids);
        times->push_back(now() - start);
      }
      const double start = now();
      const std::string text = tokenizer.decode(ids);
      back.push_back(now() - start);
      check_data(text == texts[i], "tril bench tokenizer: {} did not come back from its ids",
                 options.files[i]);
    }
    table.row({{"file", std::filesystem::path(options.files[i]).filename().string()},
               {"mb", mb},
               {"tokens", ids.size()},
               {"encode_mb_per_s", mb / median(first)},
               {"encode_again_mb_per_s", mb / median(again)},
               {"decode_mb_per_s", mb / median(back)}});
  }
}

}  // namespace tril::cli
