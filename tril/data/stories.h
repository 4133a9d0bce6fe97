// The built-in corpus: simple stories from a grammar of our own. Names stay the same through a story, he/she
// agrees with the name, objects come back: so that what a model writes can be judged by rule.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tril {

// Story number `index` of this seed: a pure function of both. Plain ASCII paragraphs, ends with a newline.
std::string make_story(uint64_t seed, uint64_t index);

// Judges a text by the grammar's own rules; each is a fact that a model can get right or wrong.
struct StoryJudgement {
  int64_t names_introduced = 0;   // named people in the story
  int64_t names_unknown = 0;      // capitalised names that were never introduced
  int64_t pronouns = 0;           // he/she/him/her/his referring to the main person
  int64_t pronouns_wrong = 0;     // ... that do not agree
  int64_t object_mentions = 0;    // later mentions of the story's object
  int64_t object_mismatches = 0;  // mentions of another object in its place
  int64_t words = 0;
  int64_t words_unknown = 0;  // words the grammar never uses
};
StoryJudgement judge_story(std::string_view text);
// The sums over a text of several stories: each begins with the paragraph that names its main person.
StoryJudgement judge_stories(std::string_view text);

}  // namespace tril
