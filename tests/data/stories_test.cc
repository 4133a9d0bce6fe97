#include "tril/data/stories.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>

#include "tests/text/text_testing.h"
#include "tril/data/story_grammar.h"

namespace tril {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to, bool all = false) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
    if (!all) break;
  }
  return text;
}

TEST(Stories, APureFunctionOfSeedAndIndex) {
  const std::string story = make_story(1, 7);
  EXPECT_EQ(make_story(1, 7), story);
  EXPECT_NE(make_story(1, 8), story);
  EXPECT_NE(make_story(2, 7), story);
  std::set<std::string> all;
  for (uint64_t index = 0; index < 2000; ++index) all.insert(make_story(3, index));
  EXPECT_EQ(all.size(), 2000u);
}

TEST(Stories, PlainParagraphsOf100To250Words) {
  for (uint64_t index = 0; index < 3000; ++index) {
    const std::string story = make_story(5, index);
    for (const char c : story) ASSERT_TRUE(c == '\n' || (c >= 32 && c < 127)) << story;
    ASSERT_EQ(story.find_first_of("{}|"), std::string::npos) << story;
    ASSERT_EQ(story.find("  "), std::string::npos) << story;
    ASSERT_EQ(story.find("\n\n\n"), std::string::npos) << story;
    ASSERT_EQ(story.back(), '\n');
    ASSERT_NE(story[story.size() - 2], '\n');
    ASSERT_EQ(std::count(story.begin(), story.end(), '"') % 2, 0) << story;
    const int64_t words = judge_story(story).words;
    ASSERT_GE(words, 100) << story;
    ASSERT_LE(words, 250) << story;
  }
}

TEST(Stories, SentencesBeginWithCapitalsAndArticlesFit) {
  for (uint64_t index = 0; index < 3000; ++index) {
    const std::string story = make_story(6, index);
    for (size_t i = 0; i + 2 < story.size(); ++i) {
      if (story[i] == '.' && story[i + 1] == ' ') {
        ASSERT_TRUE(story[i + 2] == '"' || std::isupper(story[i + 2])) << story;
      }
      if (story[i] == '\n' && story[i + 1] != '\n') {
        ASSERT_TRUE(story[i + 1] == '"' || std::isupper(story[i + 1])) << story;
      }
    }
    for (const char vowel : std::string("aeiou")) {
      ASSERT_EQ(story.find(std::string(" a ") + vowel), std::string::npos) << story;
    }
    for (const char consonant : std::string("bcdfgjklmnpqrstvwxyz")) {
      ASSERT_EQ(story.find(std::string(" an ") + consonant), std::string::npos) << story;
    }
  }
}

TEST(Stories, EveryPlotVariantAndRuleIsUsed) {
  std::string all;
  for (uint64_t index = 0; index < 6000; ++index) all += replaced(make_story(9, index), "\n\n", " ", true);
  const auto lower = [](std::string text) {
    for (char& c : text) c = static_cast<char>(std::tolower(c));
    return text;
  };
  all = lower(all);
  // The longest stretch of each text without slots must turn up somewhere.
  for (const std::string_view text : story_texts()) {
    std::string longest, part;
    bool slot = false;
    for (const char c : std::string(text) + "{") {
      if (c == '{' || c == '|') {
        if (part.size() > longest.size()) longest = part;
        part.clear();
        slot = c == '{';
      } else if (c == '}') {
        slot = false;
      } else if (!slot) {
        part.push_back(c);
      }
    }
    if (longest.size() < 6 || longest.starts_with("an the his")) continue;
    EXPECT_NE(all.find(lower(longest)), std::string::npos) << longest;
  }
}

TEST(Stories, TheGrammarKeepsItsWordsApart) {
  // An object's noun may name nothing else, and a name may not be a word.
  const StoryWords& words = story_words();
  std::map<std::string, int> counts;
  for (const std::string_view text : story_texts()) {
    std::string word;
    bool slot = false;
    for (const char c : std::string(text) + " ") {
      if (c == '{') slot = true;
      if (!slot && std::isalpha(static_cast<unsigned char>(c))) {
        word.push_back(static_cast<char>(std::tolower(c)));
      } else if (!word.empty()) {
        ++counts[word];
        word.clear();
      }
      if (c == '}') slot = false;
    }
  }
  for (const StoryObject& object : words.objects)
    EXPECT_EQ(counts[std::string(object.noun)], 1) << object.noun;
  std::set<std::string_view> names(words.girls.begin(), words.girls.end());
  for (const auto& name : words.boys) EXPECT_TRUE(names.insert(name).second) << name;
  EXPECT_EQ(names.size(), 80u);
  for (const auto& name : names) {
    std::string lower(name);
    lower[0] = static_cast<char>(std::tolower(lower[0]));
    EXPECT_EQ(counts.count(lower), 0u) << name;
  }
}

std::string word_after(const std::string& story, const std::string& before) {
  const size_t at = story.find(before);
  if (at == std::string::npos) return "";
  const size_t begin = at + before.size();
  return story.substr(begin, story.find_first_of(" .,?'", begin) - begin);
}

void expect_different_friend(const std::string& story) {
  for (const std::string_view relation : story_words().relations) {
    EXPECT_NE(word_after(story, " named "), word_after(story, " " + std::string(relation) + " ")) << story;
  }
}

TEST(JudgeStory, FindsNoFaultInTheGrammarsOwn) {
  int64_t mentions = 0, pronouns = 0;
  for (uint64_t index = 0; index < 5000; ++index) {
    const std::string story = make_story(11, index);
    const StoryJudgement judged = judge_story(story);
    ASSERT_GE(judged.names_introduced, 1) << story;
    ASSERT_LE(judged.names_introduced, 2) << story;
    ASSERT_EQ(judged.names_unknown, 0) << story;
    ASSERT_EQ(judged.pronouns_wrong, 0) << story;
    ASSERT_EQ(judged.object_mismatches, 0) << story;
    ASSERT_EQ(judged.words_unknown, 0) << story;
    ASSERT_GE(judged.pronouns, 2) << story;
    ASSERT_GE(judged.object_mentions, 2) << story;
    expect_different_friend(story);
    mentions += judged.object_mentions;
    pronouns += judged.pronouns;
  }
  EXPECT_GT(mentions, 5000 * 3);
  EXPECT_GT(pronouns, 5000 * 5);
}

const std::string kStory =
    "Once upon a time, there was a kind girl named Mia. She had a red ball. One day, her friend Tom came by. "
    "\"May I have a turn with your red ball?\" asked Tom. Mia held the ball tight.\n\nThen she smiled, and "
    "Tom "
    "took Mia's ball. It was her best day.\n";

TEST(JudgeStory, CountsWhatIsThere) {
  const StoryJudgement judged = judge_story(kStory);
  EXPECT_EQ(judged.names_introduced, 2);
  EXPECT_EQ(judged.names_unknown, 0);
  EXPECT_EQ(judged.pronouns, 4);
  EXPECT_EQ(judged.pronouns_wrong, 0);
  EXPECT_EQ(judged.object_mentions, 3);
  EXPECT_EQ(judged.object_mismatches, 0);
  EXPECT_EQ(judged.words, 52);
  EXPECT_EQ(judged.words_unknown, 0);
}

TEST(JudgeStory, SeveralStories) {
  std::string text;
  int64_t words = 0, mentions = 0;
  for (uint64_t index = 0; index < 200; ++index) {
    text += (index > 0 ? "\n" : "") + make_story(5, index);
    words += judge_story(make_story(5, index)).words;
    mentions += judge_story(make_story(5, index)).object_mentions;
  }
  const StoryJudgement judged = judge_stories(text);
  EXPECT_EQ(judged.words, words);
  EXPECT_EQ(judged.object_mentions, mentions);
  EXPECT_EQ(judged.names_unknown + judged.pronouns_wrong + judged.object_mismatches, 0);
  EXPECT_EQ(judge_stories("").words, 0);
  EXPECT_GE(judge_stories(text + "\n" + replaced(kStory, "she smiled", "he smiled")).pronouns_wrong, 1);
}

TEST(JudgeStory, FindsEachFault) {
  EXPECT_EQ(judge_story(replaced(kStory, "she smiled", "he smiled")).pronouns_wrong, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "She had", "He had")).pronouns_wrong, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "her best", "his best")).pronouns_wrong, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "named Mia", "named Ben")).pronouns_wrong, 4);
  EXPECT_EQ(judge_story(replaced(kStory, "named Mia", "named Ben")).names_unknown, 2);
  EXPECT_EQ(judge_story(replaced(kStory, "asked Tom", "asked Ben")).names_unknown, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "her friend Tom", "Tom")).names_unknown, 3);
  EXPECT_EQ(judge_story(replaced(kStory, "asked Tom", "asked Zorbo")).names_unknown, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "the ball tight", "the kite tight")).object_mismatches, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "your red ball", "your blue ball")).object_mismatches, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "smiled", "smilled")).words_unknown, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "Then", "Thn")).words_unknown, 1);
  EXPECT_EQ(judge_story(replaced(kStory, "tight", "\xC3\xA9t\xC3\xA9")).words_unknown, 1);
  EXPECT_EQ(judge_story("She had a ball.").pronouns_wrong, 1);
  EXPECT_EQ(judge_story("").words, 0);
  // A name of the model's own making is introduced like any other.
  const StoryJudgement own = judge_story(replaced(kStory, "Mia", "Zorba", true));
  EXPECT_EQ(own.names_introduced, 2);
  EXPECT_EQ(own.pronouns_wrong, 0);
  EXPECT_EQ(judge_story(replaced(replaced(kStory, "Mia", "Zorba", true), "girl", "boy")).pronouns_wrong, 4);
}

TEST(JudgeStory, FindsTamperingInEveryStory) {
  for (uint64_t index = 0; index < 1000; ++index) {
    const std::string story = make_story(13, index);
    const bool girl = story.find(" she ") != std::string::npos || story.find("She ") != std::string::npos;
    const std::string from = girl ? " her " : " his ";
    if (story.find(from) != std::string::npos) {
      EXPECT_EQ(judge_story(replaced(story, from, girl ? " his " : " her ")).pronouns_wrong, 1) << story;
    }
    for (const StoryObject& object : story_words().objects) {
      const std::string noun = " " + std::string(object.noun);
      const size_t first = story.find(noun);
      if (first == std::string::npos) continue;
      const size_t second = story.find(noun, first + 1);
      ASSERT_NE(second, std::string::npos) << story;
      std::string other = story;
      other.replace(second, noun.size(), object.noun == "kite" ? " drum" : " kite");
      EXPECT_EQ(judge_story(other).object_mismatches, 1) << other;
    }
  }
}

TEST(JudgeStory, AnyBytesCanBeJudged) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const std::string text = testing::random_text(seed, 300, false);
    const StoryJudgement judged = judge_story(text);
    EXPECT_LE(judged.words_unknown, judged.words);
  }
}

}  // namespace
}  // namespace tril
