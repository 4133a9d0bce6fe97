#include <fmt/format.h>

#include <cstdio>

#include "cli/command.h"
#include "cli/output.h"
#include "tril/base/error.h"
#include "tril/containers/json.h"
#include "tril/data/stories.h"

namespace tril::cli {
namespace {

constexpr const char* kExamples =
    "  tril corpus --stories 2000 --out stories.txt\n"
    "  tril corpus --stories 1 --seed 5\n"
    "  tril generate runs/stories --max-tokens 500 | tril corpus --judge -";

// What a model has learned of the grammar, by its own rules.
void judge(const std::string& file, bool json) {
  const StoryJudgement j = judge_stories(file == "-" ? read_standard_input() : read_text_file(file));
  check_data(j.words > 0, "{}: there are no words to judge", file == "-" ? "standard input" : file);
  if (json) {
    std::puts(to_text({{"words", j.words},
                       {"words_unknown", j.words_unknown},
                       {"names_introduced", j.names_introduced},
                       {"names_unknown", j.names_unknown},
                       {"pronouns", j.pronouns},
                       {"pronouns_wrong", j.pronouns_wrong},
                       {"object_mentions", j.object_mentions},
                       {"object_mismatches", j.object_mismatches}})
                  .c_str());
    return;
  }
  fmt::print(
      "words     {}, not of the grammar {}\nnames     {} introduced, {} never introduced\n"
      "pronouns  {}, of the wrong person {}\nobjects   {} mentions, of another object {}\n",
      j.words, j.words_unknown, j.names_introduced, j.names_unknown, j.pronouns, j.pronouns_wrong,
      j.object_mentions, j.object_mismatches);
}

}  // namespace

int corpus_command(const Arguments& words) {
  int64_t stories = 0;
  uint64_t seed = 1;
  std::string out = "-", judged;
  bool json = false;
  CommandLine line(
      "corpus",
      "Writes simple stories from a built-in grammar, a blank line between them; or judges what a "
      "model wrote\nby the rules of that grammar.",
      kExamples);
  line.count("--stories", stories, {1, 100'000'000}, "number of stories");
  line.seed("--seed", seed, "which stories (1)");
  line.text("--out", out, "FILE", "file to write (standard output)");
  line.text("--judge", judged, "FILE", "count the mistakes in a text (- for standard input)");
  line.flag("--json", json, "with --judge: one JSON object");
  if (!line.parse(words)) return 0;
  if (!judged.empty()) {
    for (const char* name : {"--stories", "--seed", "--out"})
      check_use(!line.given(name), "tril corpus: {} does not go with --judge; leave one of them out", name);
    judge(judged, json);
    return 0;
  }
  check_use(!json, "tril corpus: --json goes with --judge FILE");
  check_use(stories > 0, "tril corpus: give --stories N, such as --stories 2000");

  if (out == "-") {
    for (int64_t i = 0; i < stories; ++i) {
      const std::string story = (i > 0 ? "\n" : "") + make_story(seed, static_cast<uint64_t>(i));
      check_data(std::fwrite(story.data(), 1, story.size(), stdout) == story.size(),
                 "standard output cannot be written");
    }
    return 0;
  }
  refuse_file_of_model(out);
  AtomicFile file{Path(out)};
  for (int64_t i = 0; i < stories; ++i)
    file.write((i > 0 ? "\n" : "") + make_story(seed, static_cast<uint64_t>(i)));
  file.commit();
  return 0;
}

}  // namespace tril::cli
