#include "tril/data/story_grammar.h"

namespace tril {
namespace {

// Beginnings and turns that all plots share.
std::vector<StoryRule> common_rules() {
  return {
      {"open",
       {"once upon a time, there was a {trait} {kind} named {n}. {lived}",
        "there once was a {trait} {kind} named {n}. {lived}",
        "long ago, {home}, there lived a {trait} {kind} named {n}.",
        "a {trait} {kind} named {n} lived {home}.",
        "this is the story of a {trait} {kind} named {n}. {lived}"}},
      {"lived", {"{n} lived {home}.", "{he} and {his} {elder} lived {home}.", "{his} home was {home}."}},
      {"trait",
       {"kind", "happy", "curious", "quiet", "cheerful", "clever", "gentle", "lively", "young", "friendly"}},
      {"home_person",
       {"in a small house near the woods", "in a village by the sea", "in a house with a green door",
        "at the end of a long road", "in a town full of flowers", "above the bakery"}},
      {"home_animal",
       {"under the roots of an oak", "in a cozy den", "at the edge of the woods", "behind a mossy rock",
        "near a quiet stream", "in a small cave"}},
      {"have",
       {"{n} had {obj} and liked to {use}.", "{his} {elder} had given {him} {obj}, and {n} loved it.",
        "more than anything else, {he} loved {obj} that {he} had found one day.",
        "{he} took {obj} with {him} wherever {he} went.",
        "for {his} birthday, {n} had got {obj} from {his} {elder}."}},
      {"go",
       {"one {day}, {n} went {toplace} with {theobj}.", "one {day}, {he} took {theobj} and went {toplace}.",
        "on a {day}, {n} walked {toplace} and took {theobj} along."}},
      {"day",
       {"sunny day", "warm morning", "bright morning", "fine afternoon", "quiet afternoon", "summer day"}},
      {"sad",
       {"{n} felt very sad.", "a tear ran down {his} cheek.", "{n} sat down and sighed.",
        "{his} heart felt heavy.", "{n} did not know what to do."}},
      {"happy",
       {"\"hooray!\" {he} shouted.", "{n} laughed and danced around in a circle.",
        "{n} was so happy that {he} sang.", "\"I am so glad!\" said {n}.", "{n} held it close and smiled."}},
      {"takes_along",
       {"{he} had {theobj} with {him}, as always.", "{he} took {theobj} along and {used}.",
        "{he} carried {theobj} in {his} {hands}."}},
  };
}

std::vector<StoryRule> lost_rules() {
  return {
      {"lose",
       {"{n} stopped for a while to {pause}. {he} did not see that {theobj} had {gone}.",
        "while {n} stood there to {pause}, {theobj} was suddenly gone. it had {gone}.",
        "{n} wanted to {pause}, only for a moment. when {he} looked for {theobj} again, it had {gone}."}},
      {"pause",
       {"watch the clouds", "pick some flowers", "count the birds", "eat a snack", "watch a line of ants",
        "listen to the wind"}},
      {"search",
       {"{n} looked {spot1}. then {he} looked {spot2}. {theobj} was not there.",
        "first {n} searched {spot1}, and then {spot2}, but {he} could not find {theobj}.",
        "{n} ran back and forth. {he} searched {spot1} and {spot2}, but there was no sign of {theobj}."}},
      {"asks_lost",
       {"just then, {helper} came along. \"why are you so sad?\" asked {helper}. \"I have lost {myobj},\" "
        "said {n}.",
        "{helper} saw {him} and came closer. \"what are you looking for?\" asked {helper}. \"I cannot find "
        "{myobj},\" "
        "said {n}.",
        "\"what is the matter?\" somebody asked. it was {helper}. \"{myobj} is gone,\" said {n} in a small "
        "voice."}},
      {"answers_lost",
       {"\"do not worry,\" said {helper}. \"two pairs of eyes see more than one.\" so they searched "
        "together.",
        "\"let us look again, slowly this time,\" said {helper}. they looked at every stone and every leaf.",
        "\"I will help you,\" said {helper}. \"we will not stop before we find it.\""}},
      {"found",
       {"at last, {n} looked {spot3}. there it was! {theobj} was a little dusty, but nothing was broken.",
        "\"look over there!\" called {helper}. {spot3} lay {theobj}, safe and sound.",
        "and sure enough, {theobj} was {spot3}. {n} could hardly believe it."}},
      {"moral_lost",
       {"\"thank you for your help,\" {he} said to {helper}. from then on, {n} always kept an eye on "
        "{theobj}.",
        "that evening, {n} put {theobj} on the shelf next to {his} bed, where it could not get lost.",
        "{n} thanked {helper} and learned that it is good to ask for help."}},
  };
}

std::vector<StoryRule> share_rules() {
  return {
      {"meets", {"there {he} met {f}.", "after a while, {f} came by.", "{f} was there too."}},
      {"wants",
       {"\"may I have a turn with {yourobj}?\" asked {f}.",
        "\"that looks like fun,\" said {f}. \"can I try {yourobj}?\"",
        "{f} looked at {theobj}. \"please, may I play too?\" asked {f}."}},
      {"refuses",
       {"\"no, it is mine!\" said {n} and held it tight.",
        "{n} shook {his} head. \"I do not want to share,\" {he} said.",
        "\"not today,\" said {n} and turned away."}},
      {"plays_alone",
       {"{f} walked away and sat down {spot1}. {n} took {theobj} and {used}, but it was no fun without a "
        "friend.",
        "without a word, {f} sat down {spot1}. {n} tried to play with {theobj} alone, but soon {he} was "
        "bored.",
        "{f} looked at the ground and went to sit {spot1}. {n} took {theobj} and {used}, but "
        "nobody was there to see it."}},
      {"thinks",
       {"then {n} thought about {f}, who sat there all alone. {he} felt sorry.",
        "{n} remembered how sad {he} had been when nobody wanted to play with {him}.",
        "\"I would not like to sit there alone,\" thought {n}. {he} felt a little ashamed."}},
      {"shares",
       {"{he} walked over to {f}. \"I am sorry,\" {he} said. \"you can have a turn with {myobj}.\"",
        "so {n} sat down next to {f} and held out {theobj}. \"here, let us take turns,\" {he} said.",
        "\"please come back,\" {n} called. \"it is much better to play together.\""}},
      {"plays_together",
       {"first {f} took {theobj} and {used}. then it was {n}'s turn. they laughed until the sun went "
        "down.",
        "{f} knew a new game, and both of them played it with {theobj} all afternoon.",
        "{f} smiled from ear to ear and took {theobj}. soon they were both laughing, and the time went by "
        "quickly."}},
      {"moral_share",
       {"from that day on, {n} and {f} shared everything.",
        "{n} learned that a shared toy is twice as much fun.",
        "on the way home, {n} thought that it had been the best day of the week."}},
  };
}

std::vector<StoryRule> brave_rules() {
  return {
      {"afraid",
       {"but there was one thing that {n} did not like. {he} was afraid of {fear}.",
        "{n} was not afraid of much, but {he} was afraid of {fear}.",
        "only one thing made {n} nervous, and that was {fear}."}},
      {"missing",
       {"one {day}, {theobj} was not in its place. somebody must have taken it. {n} looked everywhere, and "
        "at last {he} saw it {objat}.",
        "one {day}, some children played with {theobj} and forgot to bring it back. they had left it "
        "{objat}.",
        "then, on a {day}, {n} could not find {theobj}. somebody had left it {objat}."}},
      {"must",
       {"to get it back, {n} had to {feartask}. \"{thought}\" {he} thought, and {his} knees began to shake.",
        "\"I have to {feartask},\" {n} whispered. \"{thought}\" {his} stomach felt cold.",
        "there was only one way. {n} had to {feartask}. \"{thought}\" {he} asked, and did not move."}},
      {"encourages",
       {"{helper} came and stood next to {him}. \"you can do it,\" said {helper}. \"just {tip}.\"",
        "\"are you afraid?\" asked {helper}. \"yes,\" said {n}. \"everybody is afraid of something,\" said "
        "{helper}. "
        "\"{tip}, and I will wait for you here.\"",
        "{helper} saw {his} face and understood. \"I was afraid of {fear} too, once,\" said {helper}. "
        "\"{tip}. that "
        "helped me.\""}},
      {"dares",
       {"{n} closed {his} eyes for a moment. then, very slowly, {he} {feardid}. {his} heart beat fast, but "
        "nothing bad "
        "happened. {he} picked up {theobj} and came back.",
        "\"I will try,\" said {n}. {he} thought of the good advice and {feardid}. it was not as bad as {he} "
        "had thought. "
        "soon {he} held {theobj} in {his} {hands}.",
        "{n} counted to three and {feardid}. halfway, {he} wanted to turn around, but {he} thought of "
        "{theobj} and "
        "went on. and then {he} had it!"}},
      {"proud",
       {"\"I did it!\" {he} shouted, and {helper} cheered.",
        "\"you were so brave!\" said {helper}. {n} smiled proudly.",
        "{n} ran to {helper} and laughed. \"it was easy in the end!\" {he} said."}},
      {"moral_brave",
       {"{n} was still a little afraid of {fear}, but now {he} knew that {he} could be brave.",
        "from that day on, {n} was not so afraid of {fear} anymore.",
        "that night, {n} fell asleep with {theobj} by {his} side and dreamed of great adventures."}},
  };
}

std::vector<StoryRule> build_rules() {
  return {
      {"idea",
       {"one {day}, {n} had an idea. \"I will build {building},\" {he} said. {he} went {toplace} and found "
        "{from}.",
        "one {day}, {n} wanted to build {building}. {he} went {toplace} with {theobj} and gathered {from}.",
        "\"today I will build {building},\" said {n} on a {day}. so {he} went {toplace} and looked for "
        "{from}."}},
      {"builds",
       {"{n} worked all morning, and {thebuilding} was almost done. {he} wanted to put {theobj} on it to "
        "make it look "
        "nice.",
        "{he} worked so hard that {he} forgot to eat. at noon, {thebuilding} was ready, and {n} put {theobj} "
        "on it.",
        "{n} hummed a song while {he} worked. the last thing to do was to set {theobj} on {thebuilding}."}},
      {"falls_down",
       {"but then there was a loud crash. {thebuilding} fell down!",
        "it creaked, it shook, and then {thebuilding} fell apart.",
        "at that moment, everything began to slide, and {thebuilding} lay in pieces on the ground."}},
      {"asks_build",
       {"\"what happened?\" asked {helper}, who had heard the noise. \"it broke, and I do not know why,\" "
        "said {n}. {helper} "
        "took a close look. \"I see,\" said {helper}. \"{whyfell}. you should {fix}.\"",
        "{helper} came to see what was wrong. \"do not give up,\" said {helper}. \"{whyfell}. next time, "
        "{fix}.\"",
        "\"I give up,\" said {n}. but {helper} picked up one of the pieces. \"it is not hard to see,\" said "
        "{helper}. "
        "\"{whyfell}. {fix}, and it will hold.\""}},
      {"builds_again",
       {"{n} tried again and did as {helper} had said. {helper} helped a little too. in the evening, {n} set "
        "{theobj} on "
        "{thebuilding}. this time it held.",
        "so they worked together, step by step. then {n} put {theobj} on {thebuilding} and waited. it did "
        "not even "
        "shake!",
        "{n} wiped {his} nose and began again. it took a long time, but when {theobj} stood on "
        "{thebuilding}, nothing "
        "moved."}},
      {"moral_build",
       {"\"thank you,\" {he} said to {helper}. \"now I know how it is done.\"",
        "{n} learned that a mistake can be a good teacher.",
        "everybody who came by stopped to look at it, and {n} was very proud."}},
  };
}

}  // namespace

std::span<const StoryRule> story_rules() {
  static const std::vector<StoryRule> rules = [] {
    std::vector<StoryRule> all;
    for (const auto& part :
         {common_rules(), lost_rules(), share_rules(), brave_rules(), build_rules(), more_story_rules()}) {
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }();
  return rules;
}

}  // namespace tril
