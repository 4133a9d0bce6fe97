#include "tril/data/story_grammar.h"

namespace tril {
namespace {

std::vector<StoryObject> objects() {
  return {
      {"ball", "kick it straight", "kicked it straight", "rolled down the path",
       "it rolled under a cart and got a hole", "a rubber patch"},
      {"kite", "fly it high", "flew it high", "been carried off by the wind",
       "it caught on a branch and tore", "paper and paste"},
      {"drum", "play a song on it", "played a song on it", "rolled down the path",
       "it fell on a stone and cracked", "strong glue"},
      {"flute", "play a tune on it", "played a tune on it", "slipped out of {his} bag",
       "it fell on a stone and cracked", "glue and a bit of thread"},
      {"whistle", "blow a tune on it", "blew a tune on it", "slipped out of {his} bag",
       "it fell on a stone and bent", "a small hammer"},
      {"hoop", "keep it rolling", "kept it rolling", "rolled down the path", "it hit a wall and bent",
       "a small hammer"},
      {"boat", "sail it across a puddle", "sailed it across a puddle", "slipped out of {his} bag",
       "it hit a rock and the mast snapped", "strong glue"},
      {"scooter", "ride it without falling", "rode it without falling", "rolled down the path",
       "it hit a wall and a wheel came off", "a new screw"},
      {"wagon", "steer it around corners", "steered it around corners", "rolled down the path",
       "it hit a rock and a wheel came off", "a new screw"},
      {"truck", "drive it over a ramp", "drove it over a ramp", "rolled down the path",
       "it hit a wall and a wheel came off", "a new screw"},
      {"train", "make it go around a bend", "made it go around a bend", "slipped out of {his} bag",
       "it fell on a stone and a wheel came off", "strong glue"},
      {"robot", "make it walk", "made it walk", "slipped out of {his} bag",
       "it fell on a stone and an arm came off", "a new screw"},
      {"puppet", "make it dance", "made it dance", "slipped out of {his} bag",
       "it caught on a nail and a thread snapped", "new thread"},
      {"rope", "jump over it ten times", "jumped over it ten times", "slipped out of {his} bag",
       "it caught on a nail and tore", "a strong knot"},
      {"marble", "roll it into a cup", "rolled it into a cup", "rolled down the path",
       "it fell on a stone and cracked", "strong glue"},
      {"bell", "ring it softly", "rang it softly", "slipped out of {his} bag", "it fell on a stone and bent",
       "a small hammer"},
      {"pinwheel", "make it spin", "made it spin", "been carried off by the wind",
       "it caught on a branch and tore", "paper and paste"},
      {"paintbrush", "paint flowers with it", "painted flowers with it", "slipped out of {his} bag",
       "it caught in a gate and snapped", "glue and a bit of thread"},
  };
}

std::vector<StoryPlace> places() {
  return {
      {"in the park",
       "to the park",
       {"the grass was soft and green.", "ducks swam in the fountain.", "people sat in the sun and talked."},
       {"under a bench", "behind the fountain", "between the roses", "beside the gate"}},
      {"in the garden",
       "to the garden",
       {"bees hummed around the flowers.", "the beans were taller than {n}.", "everything smelled sweet."},
       {"under a flower pot", "behind the beans", "between the cabbages", "beside the well"}},
      {"on the beach",
       "to the beach",
       {"the waves rolled in and out.", "the sand was warm.", "gulls cried over the water."},
       {"behind a rock", "under a towel", "beside a sand castle", "between two shells"}},
      {"in the forest",
       "to the forest",
       {"the light fell through the leaves.", "it smelled of moss and mushrooms.",
        "birds sang in every tree."},
       {"under a pile of leaves", "behind a fallen log", "between the ferns", "inside a hollow tree"}},
      {"on the farm",
       "to the farm",
       {"the rooster crowed on the fence.", "pigs slept in the mud.", "fresh hay lay in the barn."},
       {"behind the barn", "in the hay", "under the cart", "beside the milk cans"}},
      {"by the pond",
       "to the pond",
       {"the water was as smooth as glass.", "dragonflies danced over the water.", "small fish jumped."},
       {"between the reeds", "under a willow", "behind a stump", "beside the landing"}},
      {"on the hill",
       "to the hill",
       {"from there one could see the whole valley.", "clouds sailed over the hill.",
        "the grass waved softly."},
       {"behind a bush", "in the tall grass", "between two stones", "under a pine"}},
      {"on the playground",
       "to the playground",
       {"the swings went up and down.", "children laughed on the slide.",
        "somebody had drawn on the ground with chalk."},
       {"under the slide", "beside the swings", "in the sandbox", "behind the fence"}},
      {"in the meadow",
       "to the meadow",
       {"butterflies went from flower to flower.", "the clover smelled like honey.",
        "crickets sang in the grass."},
       {"in the clover", "behind a haystack", "under a thistle", "beside the brook"}},
      {"in the orchard",
       "to the orchard",
       {"the branches were heavy with apples.", "a ladder leaned on a tree.",
        "wasps buzzed around the pears."},
       {"under an apple tree", "behind a basket of pears", "between the roots", "beside the ladder"}},
      {"at the market",
       "to the market",
       {"it smelled of bread and oranges.", "a man sang and sold cheese.", "everybody was busy."},
       {"under a table", "behind the fruit stand", "between two barrels", "beside the bread"}},
      {"by the river",
       "to the river",
       {"the river sparkled in the light.", "the water whispered over the stones.",
        "an old mill turned slowly."},
       {"between two rocks", "under the bridge", "behind the mill", "in the high weeds"}},
  };
}

std::vector<StoryAnimal> animals() {
  return {
      {"a wise owl", "the owl"},           {"a black crow", "the crow"},  {"a slow turtle", "the turtle"},
      {"an old goat", "the goat"},         {"a friendly dog", "the dog"}, {"a gray cat", "the cat"},
      {"a tiny sparrow", "the sparrow"},   {"a shy deer", "the deer"},    {"a busy beaver", "the beaver"},
      {"a patient donkey", "the donkey"},  {"a plump hen", "the hen"},    {"a young lamb", "the lamb"},
      {"a clever raccoon", "the raccoon"},
  };
}

}  // namespace

const StoryWords& story_words() {
  static const StoryWords words = {
      .girls = {"Mia",    "Anna",  "Lucy",  "Emma",  "Sara", "Nora",   "Ella",  "Clara", "Zoe",   "Molly",
                "Hannah", "Julia", "Leah",  "Maya",  "Tara", "Alice",  "Betty", "Carla", "Dora",  "Elsa",
                "Fiona",  "Gina",  "Jenny", "Kate",  "Lena", "Martha", "Nina",  "Olga",  "Paula", "Rita",
                "Sofia",  "Tina",  "Vera",  "Wendy", "Amy",  "Bella",  "Greta", "Helen", "Sally", "Susan"},
      .boys = {"Tom",    "Ben",   "Max",    "Leo",   "Sam",    "Jack",  "Finn",   "Oscar", "Peter", "Hugo",
               "Noah",   "Adam",  "Carl",   "David", "Eric",   "Felix", "George", "Henry", "Ivan",  "Jacob",
               "Kevin",  "Lucas", "Martin", "Nick",  "Oliver", "Paul",  "Ralph",  "Simon", "Tim",   "Victor",
               "Walter", "Aaron", "Boris",  "Colin", "Daniel", "Edgar", "Gus",    "Harry", "Jonas", "Toby"},
      .animals_as_main = {"rabbit", "fox", "mouse", "bear", "squirrel", "hedgehog", "kitten", "puppy", "frog",
                          "badger"},
      .object_adjectives = {"red", "blue", "green", "yellow", "orange", "purple", "pink", "white", "brown",
                            "silver", "golden", "shiny", "striped", "spotted", "little", "big", "old",
                            "pretty"},
      .objects = objects(),
      .places = places(),
      .animals = animals(),
      .elders = {"mother", "father", "grandmother", "grandfather", "aunt", "uncle"},
      .relations = {"friend", "cousin", "neighbor"},
  };
  return words;
}

std::vector<std::string_view> story_texts() {
  std::vector<std::string_view> texts = {// what make_story puts into slots itself
                                         "an the his her he she him my your boy girl hands paws one day"};
  const auto add = [&](const std::vector<std::string_view>& more) {
    texts.insert(texts.end(), more.begin(), more.end());
  };
  const StoryWords& words = story_words();
  for (const auto* list :
       {&words.animals_as_main, &words.object_adjectives, &words.elders, &words.relations}) {
    add(*list);
  }
  for (const StoryObject& o : words.objects) add({o.noun, o.use, o.used, o.gone, o.broke, o.mend});
  for (const StoryPlace& place : words.places) {
    add({place.in, place.to});
    add(place.scenes);
    add(place.spots);
  }
  for (const StoryAnimal& animal : words.animals) add({animal.first, animal.later});
  for (const StoryRule& rule : story_rules()) add(rule.choices);
  for (const StoryPlot& plot : story_plots()) {
    add({plot.text});
    for (const StoryVariant& variant : plot.variants) {
      for (const auto& [name, text] : variant.slots) add({text});
    }
  }
  return texts;
}

}  // namespace tril
