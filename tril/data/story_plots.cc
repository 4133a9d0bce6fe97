#include "tril/data/story_grammar.h"

namespace tril {
namespace {

const StoryVariant kPlain = {};

std::vector<StoryVariant> fears() {
  return {
      {{{"fear", "the dark"},
        {"objat", "in the back of the dark shed"},
        {"feartask", "go into the dark shed"},
        {"feardid", "went into the shed"},
        {"thought", "what if something is hiding in there?"},
        {"tip", "take a deep breath and count your steps"}}},
      {{{"fear", "high places"},
        {"objat", "on the roof of the shed"},
        {"feartask", "climb the long ladder"},
        {"feardid", "climbed the ladder"},
        {"thought", "what if I fall down?"},
        {"tip", "hold on tight and do not look down"}}},
      {{{"fear", "the old bridge"},
        {"objat", "on the far side of the old bridge"},
        {"feartask", "cross the bridge"},
        {"feardid", "crossed the bridge"},
        {"thought", "what if it breaks?"},
        {"tip", "look straight ahead and take small steps"}}},
      {{{"fear", "deep water"},
        {"objat", "on the small island in the lake"},
        {"feartask", "swim to the island"},
        {"feardid", "swam to the island"},
        {"thought", "what if the water is too cold?"},
        {"tip", "breathe slowly and kick with your legs"}}},
      {{{"fear", "the loud geese"},
        {"objat", "in the yard where the geese lived"},
        {"feartask", "walk past the geese"},
        {"feardid", "walked past the geese"},
        {"thought", "what if they bite me?"},
        {"tip", "walk slowly and stay calm"}}},
  };
}

std::vector<StoryVariant> buildings() {
  return {
      {{{"building", "a tower"},
        {"thebuilding", "the tower"},
        {"from", "flat stones"},
        {"whyfell", "the stones at the bottom are too small"},
        {"fix", "put the biggest stones at the bottom"}}},
      {{{"building", "a fort"},
        {"thebuilding", "the fort"},
        {"from", "long branches"},
        {"whyfell", "nothing holds the branches together"},
        {"fix", "tie the branches with string"}}},
      {{{"building", "a bridge over the ditch"},
        {"thebuilding", "the bridge"},
        {"from", "some boards"},
        {"whyfell", "the boards have nothing to rest on"},
        {"fix", "put a log under the boards"}}},
      {{{"building", "a house for the birds"},
        {"thebuilding", "the house"},
        {"from", "thin boards"},
        {"whyfell", "the nails are too short"},
        {"fix", "use longer nails"}}},
      {{{"building", "a raft"},
        {"thebuilding", "the raft"},
        {"from", "round logs"},
        {"whyfell", "the knots are too loose"},
        {"fix", "tie every knot twice"}}},
  };
}

std::vector<StoryVariant> weathers() {
  return {
      {{{"wday", "one cloudy morning"},
        {"came", "it began to rain"},
        {"effect", "big drops fell on {theobj}, and soon {n} was wet from head to toe"},
        {"waiting", "the rain tapped on the roof"},
        {"after", "the rain stopped, and a rainbow stood in the sky"}}},
      {{{"wday", "one autumn morning"},
        {"came", "a strong wind began to blow"},
        {"effect", "the wind pulled at {theobj}, and {n} had to hold it with both {hands}"},
        {"waiting", "the wind howled around the walls"},
        {"after", "the wind grew tired, and the leaves lay still"}}},
      {{{"wday", "one cold winter morning"},
        {"came", "snow began to fall"},
        {"effect", "soon {theobj} was covered with snow, and {n} began to shiver"},
        {"waiting", "the snow fell without a sound"},
        {"after", "the snow stopped, and the whole world sparkled"}}},
      {{{"wday", "one gray morning"},
        {"came", "a thick fog rolled in"},
        {"effect", "{n} held {theobj} tight and could hardly see the path"},
        {"waiting", "the fog pressed against the window"},
        {"after", "the fog lifted, and the sun came out"}}},
  };
}

std::vector<StoryVariant> troubles() {
  return {
      {{{"trouble", "it was stuck in a fence and could not get out"},
        {"help", "{he} pushed the wires apart, a little at a time, until {animal} was free"}}},
      {{{"trouble", "it had a thorn in its foot and could not walk"},
        {"help", "{he} pulled out the thorn and washed the foot with cold water"}}},
      {{{"trouble", "it had lost its way and did not know how to get home"},
        {"help", "{he} walked along every path with {animal} until they found the right one"}}},
      {{{"trouble", "it had fallen into a deep hole"},
        {"help", "{he} laid a long branch into the hole, and {animal} climbed out on it"}}},
      {{{"trouble", "it had fallen into the water and was shaking with cold"},
        {"help", "{he} dried it with soft moss and made it a warm bed of hay"}}},
  };
}

std::vector<StoryVariant> hiding_places() {
  return {{{{"hidden", "under the bed"}}},
          {{{"hidden", "behind the woodpile"}}},
          {{{"hidden", "in an old chest"}}},
          {{{"hidden", "on the highest shelf"}}}};
}

std::vector<StoryPlot> make_plots() {
  return {
      {"{open} {have}|{go} {scene} {lose}|{search} {sad}|{asks_lost} {answers_lost}|{found} {happy} "
       "{moral_lost}",
       {kPlain}},
      {"{open} {have}|{go} {scene} {meets} {wants}|{refuses} {plays_alone}|{thinks} "
       "{shares}|{plays_together} "
       "{moral_share}",
       {kPlain}},
      {"{open} {have} {afraid}|{missing} {must}|{encourages}|{dares}|{proud} {moral_brave}", fears()},
      {"{open} {have}|{idea} {scene} {builds}|{falls_down} {sad} {asks_build}|{builds_again} {moral_build}",
       buildings()},
      {"{open} {have}|{wday}, {n} went {toplace}. {takes_along} then {came}. {effect}.|{shelter} "
       "{company}|{talk} "
       "{waiting}. {pass_time}|{at_last} {after}. {moral_weather}",
       weathers()},
      {"{open} {secret} {buys}|{hides}|{visits} {nearly_tells}|{gives} {thanks} {moral_secret}",
       hiding_places()},
      {"{open} {borrows}|{go} {careless}|{ashamed} {advice}|{confesses} {mends} {moral_truth}", {kPlain}},
      {"{open} {have}|{go} {scene} {finds_animal}|{rescues} {thanks_animal}|{forgets} {sad}|{brings_back} "
       "{moral_kind}",
       troubles()},
      {"{open} {gets}|{tries} {sad}|{advice_learn}|{practises}|{succeeds} {moral_learn}", {kPlain}},
  };
}

}  // namespace

std::span<const StoryPlot> story_plots() {
  static const std::vector<StoryPlot> plots = make_plots();
  return plots;
}

}  // namespace tril
