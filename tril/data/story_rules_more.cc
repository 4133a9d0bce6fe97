#include "tril/data/story_grammar.h"

namespace tril {
namespace {

std::vector<StoryRule> weather_rules() {
  return {
      {"shelter",
       {"{n} ran as fast as {he} could. not far away stood a little hut, and the door was open.",
        "luckily, there was an old hut nearby. {n} hurried inside and shut the door.",
        "\"I need a roof,\" said {n}. {he} saw a hut behind the trees and ran to it."}},
      {"company",
       {"inside, {helper} was waiting for better weather.", "to {his} surprise, {helper} was there already.",
        "{n} was not alone. {helper} sat in the corner."}},
      {"talk",
       {"\"come in and sit down,\" said {helper}. \"we can wait together.\"",
        "\"are you cold?\" asked {helper}. \"a little,\" said {n}. they moved close to each other.",
        "\"what a day!\" said {helper}. \"I am glad that you are here,\" said {n}."}},
      {"pass_time",
       {"{n} showed {theobj} to {helper}, and they told each other stories.",
        "{n} took {theobj}, and together they made up a game. soon they had forgotten the weather.",
        "they shared a piece of bread, and {n} dried {theobj} with a cloth."}},
      {"at_last",
       {"at last,", "after an hour,", "when {n} looked out again, it was over:", "then, little by little,"}},
      {"moral_weather",
       {"\"let us go outside!\" said {n}. {he} took {theobj}, and they walked home together.",
        "\"it was a good day after all,\" said {n} and waved goodbye with {theobj} under {his} arm.",
        "{n} went home with {theobj} and thought that bad weather can bring a good friend."}},
  };
}

std::vector<StoryRule> secret_rules() {
  return {
      {"secret",
       {"one day, {n} had a secret. the next day was the birthday of {f}.",
        "{n} could hardly sleep, because the next day was the birthday of {f}.",
        "it was spring, and {f} was going to have a birthday party."}},
      {"buys",
       {"{n} had saved some coins, and at the market {he} had bought {obj}. it was going to be a present.",
        "with the help of {his} {elder}, {n} had made {obj} as a present.",
        "{n} had worked for a whole week to buy {obj} as a present."}},
      {"hides",
       {"nobody was allowed to know. {n} wrapped {theobj} in paper and hid it {hidden}.",
        "{n} hid {theobj} {hidden}. \"nobody will look there,\" {he} said to {his} {elder}.",
        "\"where can I hide {theobj}?\" {n} asked {his} {elder}. they thought for a while and put it "
        "{hidden}."}},
      {"visits",
       {"in the afternoon, {f} came to visit. \"what did you do today?\" asked {f}.",
        "then there was a knock at the door, and {f} came in. \"why are you smiling like that?\" asked {f}.",
        "soon {f} came over to play. \"you look as if you had a secret,\" said {f}."}},
      {"nearly_tells",
       {"{n} wanted so much to tell everything. {he} bit {his} lip. \"oh, nothing special,\" {he} said. it "
        "was hard to keep "
        "a secret!",
        "{n} felt {his} ears grow hot. \"let us go outside and play,\" {he} said quickly. {f} did not notice "
        "anything.",
        "\"I cannot tell you yet,\" said {n}. \"but you will find out soon.\" {f} asked and asked, but {n} "
        "only "
        "laughed."}},
      {"gives",
       {"the next morning, {n} took {theobj} and ran all the way to the party. \"happy birthday!\" {he} "
        "called.",
        "at last, the big day came. {n} held the present behind {his} back. then {he} showed {theobj} and "
        "sang a birthday "
        "song.",
        "when the day of the party came, {n} was the first guest. \"this is for you,\" {he} said and held "
        "out {theobj}."}},
      {"thanks",
       {"\"for me?\" asked {f}. \"it is just what I wanted!\"",
        "{f} jumped up and down with joy. \"this is the best present of all!\" said {f}.",
        "{f} took {theobj} and {used}. \"thank you, thank you!\" said {f}."}},
      {"moral_secret",
       {"{n} was as happy as {f}. a good secret is one that makes somebody smile.",
        "they ate cake and played with {theobj} until it was dark.",
        "\"now I can talk about it,\" said {n}, and they both laughed."}},
  };
}

std::vector<StoryRule> truth_rules() {
  return {
      {"borrows",
       {"{his} {elder} had {obj} from long ago. \"you may borrow it,\" said {his} {elder}. \"but please be "
        "careful.\"",
        "one day, {his} {elder} showed {him} {obj}. \"it is yours for today, if you take good care of it,\" "
        "said {his} {elder}.",
        "{n} often asked {his} {elder} for {obj} that stood on the shelf. one day {his} {elder} said yes."}},
      {"careless",
       {"{he} {used} again and again. it was so much fun that {n} forgot to be careful. then it happened: "
        "{broke}.",
        "for a while, {n} was very careful. then {he} began to run and to jump. {broke}.",
        "\"watch me!\" {n} called to the birds, and {he} did not look where {he} went. {broke}."}},
      {"ashamed",
       {"{n} stood very still. what would {his} {elder} say? {he} wanted to hide {theobj} {spot1}.",
        "{n} felt sick with fear. {he} thought about leaving {theobj} {spot1} and saying that it was lost.",
        "\"oh no,\" whispered {n}. {he} pushed {theobj} {spot1}, where nobody would see it."}},
      {"advice",
       {"\"what are you doing?\" asked {pal}. {n} told the whole story. \"the truth is hard,\" said {pal}. "
        "\"but it feels better "
        "afterwards.\"",
        "{pal} had seen everything. \"will you tell the truth?\" asked {pal}. \"I am afraid to,\" said {n}. "
        "\"a lie only grows "
        "bigger,\" said {pal}.",
        "then {pal} came by. \"everybody breaks something now and then,\" said {pal}. \"tell the truth, and "
        "you will see that "
        "all is well.\""}},
      {"confesses",
       {"so {n} went home with {theobj}. \"I broke it,\" {he} said quietly. \"I was not careful, and I am "
        "sorry.\"",
        "{n} took a deep breath and carried {theobj} home. \"it was my fault,\" {he} told {his} {elder}.",
        "slowly, {n} walked home and put {theobj} on the table. \"I have to tell you something,\" {he} said "
        "to {his} "
        "{elder}."}},
      {"mends",
       {"{his} {elder} was quiet for a moment. \"thank you for telling me,\" said {his} {elder}. they got "
        "{mend}, and soon "
        "{theobj} was as good as new.",
        "{his} {elder} did not shout. \"things break, but we can mend them,\" said {his} {elder}. with "
        "{mend} they mended "
        "{theobj} together.",
        "{his} {elder} looked at {theobj} and then at {n}. \"I am proud that you told me,\" said {his} "
        "{elder}. all they needed "
        "was {mend}, and {theobj} was whole again."}},
      {"moral_truth",
       {"{n} felt light and happy, because {he} had told the truth.",
        "after that, {n} was always careful with borrowed things.",
        "that evening, {n} slept well. it is good to be honest."}},
  };
}

std::vector<StoryRule> rescue_rules() {
  return {
      {"finds_animal",
       {"suddenly {n} heard a soft cry. not far away, {he} saw {animal}. {trouble}.",
        "there {n} met {animal}. {trouble}.", "{n} wanted to play, but then {he} saw {animal}. {trouble}."}},
      {"rescues",
       {"\"please help me,\" said {animal}. {n} put {theobj} down at once. {help}.",
        "\"do not be afraid,\" said {n}. {he} laid {theobj} aside, and then {help}.",
        "{n} knew that there was no time to lose. {he} dropped {theobj}, and {help}."}},
      {"thanks_animal",
       {"\"thank you,\" said {animal}. \"I will not forget this.\"",
        "\"you saved me!\" said {animal}. \"you have a good heart.\"",
        "\"how can I thank you?\" asked {animal}. \"there is no need,\" said {n}."}},
      {"forgets",
       {"in all the excitement, {n} went home without {theobj}. {he} only noticed it at bedtime, when it was "
        "dark outside.",
        "at home, {n} wanted to show {theobj} to {his} {elder}. but {he} had left it behind! when {he} ran "
        "back, it was gone.",
        "the day had been so full that {n} forgot {theobj}. at night, {he} lay awake and wondered where it "
        "was."}},
      {"brings_back",
       {"the next morning, there was a knock at the door. it was {animal}, and it had brought {theobj}! "
        "\"you helped me, so I "
        "helped you,\" said {animal}.",
        "early in the morning, {n} heard a noise outside. there stood {animal} with {theobj}. \"I kept it "
        "safe for you,\" "
        "said {animal}.",
        "but when {n} opened the door in the morning, {animal} was waiting there. \"is this yours?\" asked "
        "{animal} and put "
        "down {theobj}."}},
      {"moral_kind",
       {"{n} was so happy that {he} hugged {animal}. a kind deed often comes back.",
        "from then on, {n} and {animal} were good friends.",
        "they had breakfast together, and {n} learned that nobody is too small to help or too big to need "
        "help."}},
  };
}

std::vector<StoryRule> learn_rules() {
  return {
      {"gets",
       {"one day, {his} {elder} gave {him} {obj}. {n} wanted to {use}, but {he} did not know how.",
        "{n} had got {obj} for {his} birthday. {he} dreamed that one day {he} would {use}.",
        "in the window of a shop, {n} saw {obj}, and {his} {elder} bought it for {him}. now {he} wanted to "
        "learn to "
        "{use}."}},
      {"tries",
       {"one {day}, {n} took {theobj} {toplace}. {he} tried and tried, but it did not work. \"I will never "
        "learn this,\" {he} "
        "said.",
        "{he} tried it once. {he} tried it twice. {he} tried it with {theobj} ten times {inplace}, and each "
        "time something "
        "went wrong.",
        "on the first day, {n} practiced {inplace}. it looked so easy when others did it, but with {theobj} "
        "nothing went "
        "right."}},
      {"advice_learn",
       {"{helper} had been watching. \"may I tell you something?\" asked {helper}. \"nobody can do it on the "
        "first day. try a "
        "little every day.\"",
        "\"why did you stop?\" asked {helper}. \"because I am not good at it,\" said {n}. \"not yet,\" said "
        "{helper}. \"you only need "
        "more time.\"",
        "then {helper} came by and sat down next to {him}. \"you are too fast,\" said {helper}. \"do it "
        "slowly first, and then a "
        "little faster.\""}},
      {"practises",
       {"so {n} went {toplace} again the next day, and the day after that. {scene} every day it went a "
        "little better.",
        "{n} listened and began again. {scene} on the second day, {he} made only a few mistakes. on the "
        "third day, {he} made almost "
        "none.",
        "every morning, before breakfast, {n} practiced with {theobj}. {scene} some days were good and some "
        "were not, but {he} did not "
        "give up."}},
      {"succeeds",
       {"and then, at the end of the week, {n} took {theobj} and {used}. \"look at me!\" {he} shouted. "
        "{helper} cheered loudly.",
        "one evening, it finally worked. {n} took {theobj} and {used}, just like that. \"you did it!\" "
        "called {helper}.",
        "at last, the great moment came. {helper} watched while {n} took {theobj} and {used}. {n} could "
        "hardly believe it."}},
      {"moral_learn",
       {"{n} learned that big things begin with small steps.",
        "\"what shall I learn next?\" asked {n}, and they both laughed.",
        "that night, {n} put {theobj} beside {his} pillow and fell asleep with a smile."}},
  };
}

}  // namespace

std::vector<StoryRule> more_story_rules() {
  std::vector<StoryRule> all;
  for (const auto& part : {weather_rules(), secret_rules(), truth_rules(), rescue_rules(), learn_rules()}) {
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace tril
