#include <cstdio>

#include "cli/command.h"
#include "tril/base/error.h"
#include "tril/base/files.h"
#include "tril/data/stories.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril corpus --stories 2000 --out stories.txt\n"
    "  tril corpus --stories 1 --seed 5";

}  // namespace

int corpus_command(const Arguments& words) {
  int64_t stories = 0;
  uint64_t seed = 1;
  std::string out = "-";
  CommandLine line("corpus", "Writes simple stories from a built-in grammar, a blank line between them.",
                   kExamples);
  line.count("--stories", stories, {1, 100'000'000}, "number of stories");
  line.seed("--seed", seed, "which stories (1)");
  line.text("--out", out, "FILE", "file to write (standard output)");
  if (!line.parse(words)) return 0;
  check_use(stories > 0, "tril corpus: give --stories N, such as --stories 2000");

  if (out == "-") {
    for (int64_t i = 0; i < stories; ++i) {
      const std::string story = (i > 0 ? "\n" : "") + make_story(seed, static_cast<uint64_t>(i));
      check_data(std::fwrite(story.data(), 1, story.size(), stdout) == story.size(),
                 "standard output cannot be written");
    }
    return 0;
  }
  AtomicFile file{Path(out)};
  for (int64_t i = 0; i < stories; ++i)
    file.write((i > 0 ? "\n" : "") + make_story(seed, static_cast<uint64_t>(i)));
  file.commit();
  return 0;
}

}  // namespace tril::cli
