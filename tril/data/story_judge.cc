#include <set>
#include <unordered_map>
#include <unordered_set>

#include "tril/data/stories.h"
#include "tril/data/story_grammar.h"

namespace tril {
namespace {

enum class Gender { kUnknown, kMale, kFemale };

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
// Characters beyond ASCII count as letters: they make words that no story has.
bool is_letter(char c) {
  return is_upper(c) || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) >= 128;
}

std::string lower(std::string_view word) {
  std::string out(word);
  for (char& c : out) c = is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

// Calls f(word, begin, end) for each run of letters.
template <class F>
void for_each_word(std::string_view text, F&& f) {
  for (size_t at = 0; at < text.size();) {
    if (!is_letter(text[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_letter(text[end])) ++end;
    f(text.substr(at, end - at), at);
    at = end;
  }
}

std::string without_slots(std::string_view text) {
  std::string out;
  bool slot = false;
  for (const char c : text) {
    if (c == '{') slot = true;
    out.push_back(slot ? ' ' : c);
    if (c == '}') slot = false;
  }
  return out;
}

struct Lexicon {
  std::unordered_map<std::string_view, Gender> names;
  std::unordered_set<std::string> words;
  std::unordered_set<std::string_view> nouns, adjectives, introducers;
};

const Lexicon& lexicon() {
  static const Lexicon lexicon = [] {
    const StoryWords& words = story_words();
    Lexicon made;
    for (const auto& name : words.girls) made.names[name] = Gender::kFemale;
    for (const auto& name : words.boys) made.names[name] = Gender::kMale;
    for (const StoryObject& object : words.objects) made.nouns.insert(object.noun);
    made.adjectives.insert(words.object_adjectives.begin(), words.object_adjectives.end());
    made.introducers.insert(words.relations.begin(), words.relations.end());
    made.introducers.insert("named");
    for (const std::string_view text : story_texts()) {
      for_each_word(without_slots(text),
                    [&](std::string_view word, size_t) { made.words.insert(lower(word)); });
    }
    return made;
  }();
  return lexicon;
}

Gender pronoun_gender(const std::string& word) {
  static const std::unordered_map<std::string_view, Gender> pronouns = {
      {"he", Gender::kMale},      {"him", Gender::kMale},       {"his", Gender::kMale},
      {"himself", Gender::kMale}, {"she", Gender::kFemale},     {"her", Gender::kFemale},
      {"hers", Gender::kFemale},  {"herself", Gender::kFemale},
  };
  const auto found = pronouns.find(word);
  return found == pronouns.end() ? Gender::kUnknown : found->second;
}

class Judge {
 public:
  explicit Judge(std::string_view text) : text_(text) {}

  StoryJudgement run() {
    for_each_word(text_, [this](std::string_view word, size_t at) { read(word, at); });
    out_.names_introduced = std::ssize(introduced_);
    return out_;
  }

 private:
  void read(std::string_view word, size_t at) {
    const bool joined = at > 0 && end_ + 1 == at && text_[at - 1] == ' ';
    // The s of "Anna's" belongs to the word before.
    if (word == "s" && at > 0 && end_ + 1 == at && text_[at - 1] == '\'') {
      end_ = at + 1;
      return;
    }
    ++out_.words;
    const std::string plain = lower(word);
    const std::string before = joined ? previous_ : "";
    if (!read_name(word, before, at) && !lexicon().words.contains(plain)) ++out_.words_unknown;
    read_pronoun(plain);
    if (lexicon().nouns.contains(plain)) read_object(plain, before);
    before_previous_ = before;
    previous_ = plain;
    end_ = at + word.size();
  }

  // Whether the word is a name, known or not.
  bool read_name(std::string_view word, const std::string& before, size_t at) {
    if (!is_upper(word[0]) || word == "I") return false;
    const auto listed = lexicon().names.find(word);
    if (listed == lexicon().names.end() && starts_sentence(at)) return false;
    if (lexicon().introducers.contains(before)) {
      if (introduced_.empty()) main_gender_ = gender_of(listed, before);
      introduced_.insert(std::string(word));
    } else if (!introduced_.contains(std::string(word))) {
      ++out_.names_unknown;
    }
    return true;
  }

  Gender gender_of(decltype(Lexicon::names)::const_iterator listed, const std::string& before) const {
    if (listed != lexicon().names.end()) return listed->second;
    if (before == "named" && before_previous_ == "girl") return Gender::kFemale;
    if (before == "named" && before_previous_ == "boy") return Gender::kMale;
    return Gender::kUnknown;
  }

  bool starts_sentence(size_t at) const {
    while (at > 0 && (text_[at - 1] == ' ' || text_[at - 1] == '"')) {
      if (text_[--at] == '"') return true;
    }
    return at == 0 || std::string_view(".!?\n").find(text_[at - 1]) != std::string_view::npos;
  }

  // All of a story's he and she are the main person, the one introduced first.
  void read_pronoun(const std::string& word) {
    const Gender gender = pronoun_gender(word);
    if (gender == Gender::kUnknown) return;
    ++out_.pronouns;
    if (!introduced_.empty() && main_gender_ == Gender::kUnknown) main_gender_ = gender;
    if (gender != main_gender_) ++out_.pronouns_wrong;
  }

  void read_object(const std::string& noun, const std::string& before) {
    const std::string adjective = lexicon().adjectives.contains(before) ? before : "";
    if (noun_.empty()) {
      noun_ = noun;
      adjective_ = adjective;
      return;
    }
    ++out_.object_mentions;
    if (noun == noun_ && adjective_.empty()) adjective_ = adjective;
    if (noun != noun_ || (!adjective.empty() && adjective != adjective_)) ++out_.object_mismatches;
  }

  std::string_view text_;
  StoryJudgement out_;
  std::string previous_, before_previous_;
  size_t end_ = 0;  // of the previous word
  std::set<std::string> introduced_;
  Gender main_gender_ = Gender::kUnknown;
  std::string noun_, adjective_;
};

}  // namespace

StoryJudgement judge_story(std::string_view text) { return Judge(text).run(); }

StoryJudgement judge_stories(std::string_view text) {
  constexpr int64_t StoryJudgement::*kCounts[] = {&StoryJudgement::names_introduced,
                                                  &StoryJudgement::names_unknown,
                                                  &StoryJudgement::pronouns,
                                                  &StoryJudgement::pronouns_wrong,
                                                  &StoryJudgement::object_mentions,
                                                  &StoryJudgement::object_mismatches,
                                                  &StoryJudgement::words,
                                                  &StoryJudgement::words_unknown};
  StoryJudgement sum;
  const auto add = [&](std::string_view story) {
    const StoryJudgement judged = judge_story(story);
    for (const auto count : kCounts) sum.*count += judged.*count;
  };
  size_t begin = 0;
  for (size_t paragraph = 0; paragraph < text.size();) {
    const size_t end = std::min(text.find("\n\n", paragraph), text.size());
    const bool introduces = text.substr(paragraph, end - paragraph).find(" named ") != text.npos;
    if (introduces && paragraph > begin) {
      add(text.substr(begin, paragraph - begin));
      begin = paragraph;
    }
    paragraph = std::min(end + 2, text.size());
  }
  add(text.substr(begin));
  return sum;
}

}  // namespace tril
