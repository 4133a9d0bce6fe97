#include "tril/data/stories.h"

#include <map>
#include <utility>

#include "tril/base/error.h"
#include "tril/base/random.h"
#include "tril/data/story_grammar.h"

namespace tril {
namespace {

bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_letter(char c) { return is_upper(c) || is_lower(c); }
char to_upper(char c) { return is_lower(c) ? static_cast<char>(c - 'a' + 'A') : c; }
char to_lower(char c) { return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c; }

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = to_upper(text[0]);
  return text;
}

class StoryMaker {
 public:
  StoryMaker(uint64_t seed, uint64_t index) : random_(seed, "stories", index) {}

  std::string make();

 private:
  template <class List>
  const auto& pick(const List& list) {
    return list[random_.below(draws_++, std::size(list))];
  }

  void choose_people() {
    const StoryWords& words = story_words();
    const bool girl = random_.below(draws_++, 2) == 0;
    const bool animal = random_.below(draws_++, 4) == 0;
    slots_["n"] = pick(girl ? words.girls : words.boys);
    slots_["he"] = girl ? "she" : "he";
    slots_["him"] = girl ? "her" : "him";
    slots_["his"] = girl ? "her" : "his";
    slots_["kind"] = animal ? pick(words.animals_as_main) : girl ? "girl" : "boy";
    slots_["hands"] = animal ? "paws" : "hands";
    suffix_ = animal ? "_animal" : "_person";
    do {
      friend_ = pick(random_.below(draws_++, 2) == 0 ? words.girls : words.boys);
    } while (friend_ == slots_["n"]);
    slots_["elder"] = pick(words.elders);
    animal_ = &pick(words.animals);
    static constexpr std::string_view kHelpers[] = {"{f}", "{animal}", "{his} {elder}"};
    const uint64_t helper = random_.below(draws_++, 3);
    slots_["helper"] = kHelpers[helper];
    slots_["pal"] = kHelpers[helper % 2];
  }

  void choose_things() {
    const StoryWords& words = story_words();
    const StoryObject& object = pick(words.objects);
    noun_ = object.noun;
    adjective_ = pick(words.object_adjectives);
    slots_["use"] = object.use;
    slots_["used"] = object.used;
    slots_["gone"] = object.gone;
    slots_["broke"] = object.broke;
    slots_["mend"] = object.mend;
    const StoryPlace& place = pick(words.places);
    slots_["inplace"] = place.in;
    slots_["toplace"] = place.to;
    slots_["scene"] = pick(place.scenes);
    const size_t first = random_.below(draws_++, place.spots.size());
    static constexpr std::string_view kSpots[] = {"spot1", "spot2", "spot3"};
    for (size_t i = 0; i < 3; ++i) slots_[kSpots[i]] = place.spots[(first + i) % place.spots.size()];
  }

  // Now with the adjective, now without.
  std::string object_after(std::string_view article) {
    return fmt::format("{} {}{}", article,
                       random_.below(draws_++, 2) == 0 ? std::string(adjective_) + " " : "", noun_);
  }

  std::string expand(std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (text[at] != '{') {
        out.push_back(text[at++]);
        continue;
      }
      const size_t end = text.find('}', at);
      std::string name(text.substr(at + 1, end - at - 1));
      const bool capital = is_upper(name[0]);
      name[0] = to_lower(name[0]);
      out += capital ? capitalised(fill(name)) : fill(name);
      at = end + 1;
    }
    return out;
  }

  std::string fill(const std::string& name) {
    if (name == "obj") return fmt::format("a {} {}", adjective_, noun_);
    if (name == "theobj") return object_after("the");
    if (name == "myobj") return object_after("my");
    if (name == "yourobj") return object_after("your");
    if (name == "f") return first_time(met_friend_) ? introduce_friend() : std::string(friend_);
    if (name == "animal") return std::string(first_time(met_animal_) ? animal_->first : animal_->later);
    if (const auto slot = slots_.find(name); slot != slots_.end()) return expand(slot->second);
    for (const StoryRule& rule : story_rules()) {
      if (rule.name == name || rule.name == name + suffix_) return expand(pick(rule.choices));
    }
    fail(ErrorKind::kUse, "stories: the grammar has no rule {}", name);
  }

  static bool first_time(bool& happened) { return !std::exchange(happened, true); }

  std::string introduce_friend() {
    return fmt::format("{} {} {}", slots_["his"], pick(story_words().relations), friend_);
  }

  // Capitals where sentences begin, "an" before vowels, paragraphs.
  static std::string finish(const std::string& text) {
    std::string out;
    bool sentence = true;
    bool inside = false;  // of a quotation
    for (size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (c == '|') {
        out += "\n\n";
        sentence = true;
      } else if (c == '"') {
        // What follows an exclamation or a question in quotation marks belongs to its sentence.
        sentence = inside ? text[i - 1] == '.' : true;
        inside = !inside;
        out.push_back(c);
      } else if (is_letter(c)) {
        out.push_back(sentence ? to_upper(c) : c);
        sentence = false;
        const bool alone = (c == 'a' || c == 'A') && (i == 0 || !is_letter(text[i - 1])) &&
                           i + 2 < text.size() && text[i + 1] == ' ';
        if (alone && std::string_view("aeiou").find(text[i + 2]) != std::string_view::npos)
          out.push_back('n');
      } else {
        sentence = sentence || c == '.' || c == '!' || c == '?';
        out.push_back(c);
      }
    }
    return out + "\n";
  }

  RandomStream random_;
  uint64_t draws_ = 0;
  std::map<std::string_view, std::string_view> slots_;
  std::string suffix_;
  std::string_view friend_, noun_, adjective_;
  const StoryAnimal* animal_ = nullptr;
  bool met_friend_ = false, met_animal_ = false;
};

std::string StoryMaker::make() {
  const StoryPlot& plot = pick(story_plots());
  choose_people();
  choose_things();
  for (const auto& [name, text] : pick(plot.variants).slots) slots_[name] = text;
  return finish(expand(plot.text));
}

}  // namespace

std::string make_story(uint64_t seed, uint64_t index) { return StoryMaker(seed, index).make(); }

}  // namespace tril
