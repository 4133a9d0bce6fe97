// The words and rules of the stories. Texts hold slots in braces: {he}, {theobj}, ... are filled by
// make_story, all other names are rules, of which one choice is taken. Sentences begin in lower case here;
// make_story sets capitals, and "an" for "a".
#pragma once

#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace tril {

struct StoryObject {
  std::string_view noun;
  std::string_view use, used;  // "to ...", and the same in the past; both say "it"
  std::string_view gone;       // "it had ...": how it gets lost
  std::string_view broke;      // how it breaks
  std::string_view mend;       // what it is mended with
};

struct StoryPlace {
  std::string_view in, to;
  std::vector<std::string_view> scenes;
  std::vector<std::string_view> spots;  // where things hide; at least three
};

struct StoryAnimal {
  std::string_view first, later;  // "a wise owl", "the owl"
};

// One way a plot can go: names and texts of slots that fit together.
struct StoryVariant {
  std::vector<std::pair<std::string_view, std::string_view>> slots;
};

struct StoryRule {
  std::string_view name;
  std::vector<std::string_view> choices;
};

struct StoryWords {
  std::vector<std::string_view> girls, boys;
  std::vector<std::string_view> animals_as_main;
  std::vector<std::string_view> object_adjectives;
  std::vector<StoryObject> objects;
  std::vector<StoryPlace> places;
  std::vector<StoryAnimal> animals;
  std::vector<std::string_view> elders;
  std::vector<std::string_view> relations;  // a name after one of these, or after "named", is introduced
};
const StoryWords& story_words();

struct StoryPlot {
  std::string_view text;  // paragraphs, "|" between
  std::vector<StoryVariant> variants;
};
std::span<const StoryPlot> story_plots();
std::span<const StoryRule> story_rules();
std::vector<StoryRule> more_story_rules();  // a part of story_rules()

// Every text of the grammar: all words that a story can hold are in them.
std::vector<std::string_view> story_texts();

}  // namespace tril
