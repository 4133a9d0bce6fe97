#include "tril/base/printable.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer_json_parts.h"

namespace tril {
namespace {

using Json = TokenizerJson;
using Kind = Tokenizer::Kind;

constexpr int kDeepest = 32;

std::string type_of(const Json& value) {
  const Json& type = json_member(value, "type");
  return type.is_string() ? json_show(type) : json_show(value);
}

// A Sequence's parts, anything else as the one part of itself, null as none.
std::vector<Json> steps_of(const Json& value, const char* key) {
  if (value.is_null()) return {};
  if (!json_is(value, "type", "Sequence")) return {value};
  const Json& list = json_member(value, key);
  if (!list.is_array()) return {value};
  std::vector<Json> steps;
  for (const Json& item : list) {
    const std::vector<Json> inner = steps_of(item, key);
    steps.insert(steps.end(), inner.begin(), inner.end());
  }
  return steps;
}

class Pipeline {
 public:
  Pipeline(const Json& root, const JsonPlace& place, TokenizerParts& parts)
      : root_(root), place_(place), parts_(parts), model_(json_member(root, "model")) {}

  void read() {
    for (const char* key : {"truncation", "padding"}) {
      const Json& value = json_member(root_, key);
      place_.require(value.is_null(), "\"{}\" {} would change the ids and is not supported; only null is",
                     key, json_show(value));
    }
    read_post_processor();
    if (json_member(model_, "byte_fallback") == true) {
      read_sentencepiece();
    } else {
      read_byte_level();
    }
  }

 private:
  void read_post_processor() {
    for (const Json& step : steps_of(json_member(root_, "post_processor"), "processors")) {
      if (json_is(step, "type", "ByteLevel")) continue;
      place_.require(json_is(step, "type", "TemplateProcessing"),
                     "post_processor {} would add ids and is not supported; only ByteLevel and a "
                     "TemplateProcessing that begins with a special token are",
                     type_of(step));
      read_template(step);
    }
  }

  // [SpecialToken, Sequence A], or Sequence A alone.
  void read_template(const Json& step) {
    const Json& single = json_member(step, "single");
    place_.require(
        single.is_array() && (single.size() == 1 || single.size() == 2) &&
            json_is(json_member(single.back(), "Sequence"), "id", "A"),
        "post_processor TemplateProcessing {}: only one special token before the text is supported",
        json_show(single));
    if (single.size() == 1) return;
    const Json& name = json_member(json_member(single[0], "SpecialToken"), "id");
    place_.require(name.is_string(), "post_processor TemplateProcessing: {} names no special token",
                   json_show(single[0]));
    const Json& ids =
        json_member(json_member(json_member(step, "special_tokens"), name.get<std::string>().c_str()), "ids");
    place_.require(ids.is_array() && ids.size() == 1 && ids[0].is_number_unsigned() &&
                       ids[0].get<uint64_t>() <= INT32_MAX && parts_.begin_of_text < 0,
                   "post_processor TemplateProcessing: {} has the ids {}, only one is supported",
                   json_show(name), json_show(ids));
    parts_.begin_of_text = ids[0].get<int32_t>();
  }

  void read_byte_level() {
    for (const Json& step : steps_of(json_member(root_, "normalizer"), "normalizers")) {
      place_.require(json_is(step, "type", "NFC"),
                     "normalizer {} would change the ids and is not supported; only NFC is, and none",
                     type_of(step));
      parts_.nfc = true;
    }
    std::vector<Json> steps = steps_of(json_member(root_, "pre_tokenizer"), "pretokenizers");
    if (steps.empty()) return read_characters();
    place_.require(json_is(steps.back(), "type", "ByteLevel"),
                   "pre_tokenizer ends with {}, which is not supported: only ByteLevel is as the last step",
                   type_of(steps.back()));
    for (size_t i = 0; i + 1 < steps.size(); ++i) parts_.splits.push_back(split_of(steps[i]));
    const Json& byte_level = steps.back();
    place_.require(json_member(byte_level, "add_prefix_space") == false,
                   "pre_tokenizer ByteLevel with add_prefix_space {} is not supported, only false",
                   json_show(json_member(byte_level, "add_prefix_space")));
    const Json& regex = json_member(byte_level, "use_regex");
    place_.require(regex.is_null() || regex.is_boolean(), "use_regex {} is not true or false",
                   json_show(regex));
    if (regex.is_null() || regex == true) parts_.splits.emplace_back(kGpt2Split);
    check_splits();
    const Json& decoder = json_member(root_, "decoder");
    place_.require(json_is(decoder, "type", "ByteLevel"), "decoder {} is not supported here, only ByteLevel",
                   type_of(decoder));
    const bool merges = !json_member(model_, "merges").empty();
    parts_.kind = parts_.splits.empty() && !merges ? Kind::kByte : Kind::kBpe;
  }

  void check_splits() const {
    try {
      pretokenizer_of(parts_.splits);
    } catch (const Error& error) {
      place_.refuse("pre_tokenizer: {}", error.what());
    }
  }

  std::string split_of(const Json& step) const {
    if (json_is(step, "type", "Digits")) {
      const bool individual = json_member(step, "individual_digits") == true;
      return individual ? std::string(kDigitSplit) : "\\p{N}+";
    }
    place_.require(json_is(step, "type", "Split"),
                   "pre_tokenizer {} is not supported; only Split, Digits and ByteLevel are", type_of(step));
    const Json& behavior = json_member(step, "behavior");
    place_.require(behavior == "Isolated",
                   "pre_tokenizer Split with behavior {} is not supported, only Isolated",
                   json_show(behavior));
    const Json& invert = json_member(step, "invert");
    place_.require(invert.is_null() || invert == false,
                   "pre_tokenizer Split with invert {} is not supported, only false", json_show(invert));
    const Json& pattern = json_member(json_member(step, "pattern"), "Regex");
    place_.require(pattern.is_string(), "pre_tokenizer Split has the pattern {}, only a Regex is supported",
                   json_show(json_member(step, "pattern")));
    return pattern.get<std::string>();
  }

  void read_characters() {
    const Json& decoder = json_member(root_, "decoder");
    const Json& merges = json_member(model_, "merges");
    const Json& unknown = json_member(model_, "unk_token");
    place_.require(json_is(decoder, "type", "Fuse"),
                   "no pre_tokenizer and decoder {}: only single characters with decoder Fuse are supported",
                   type_of(decoder));
    place_.require(merges.empty(), "no pre_tokenizer, but {} merges: only ByteLevel is supported with merges",
                   merges.size());
    place_.require(unknown.is_null(), "unk_token {} is not supported with single characters",
                   json_show(unknown));
    place_.require(!parts_.nfc, "normalizer NFC is not supported with single characters");
    parts_.kind = Kind::kCharacter;
  }

  void read_sentencepiece() {
    parts_.kind = Kind::kSentencePiece;
    place_.require(json_member(model_, "ignore_merges") != true,
                   "model \"ignore_merges\" true is not supported with byte_fallback");
    for (const Json& step : steps_of(json_member(root_, "normalizer"), "normalizers")) {
      if (json_is(step, "type", "Prepend")) {
        const Json& added = json_member(step, "prepend");
        // Before or after the replacement, a space and U+2581 come out the same unless nothing is replaced.
        place_.require((added == " " || added == std::string(kMetaspaceCharacter)) &&
                           parts_.prefix == SpacePrefix::kNone,
                       "normalizer Prepend of {} is not supported, only of one space or U+2581",
                       json_show(added));
        parts_.prefix = SpacePrefix::kAlways;
        prepended_ = added.get<std::string>();
      } else {
        read_replace(step, "normalizer");
        parts_.metaspace = true;
      }
    }
    for (const Json& step : steps_of(json_member(root_, "pre_tokenizer"), "pretokenizers"))
      read_metaspace(step);
    place_.require(prepended_ != kMetaspaceCharacter || parts_.metaspace,
                   "normalizer Prepend of U+2581 without Replace of the space is not supported");
    read_sentencepiece_decoder();
  }

  // " " by U+2581.
  void read_replace(const Json& step, const char* key) const {
    place_.require(
        json_is(step, "type", "Replace") && json_is(json_member(step, "pattern"), "String", " ") &&
            json_is(step, "content", kMetaspaceCharacter),
        "{} {} is not supported with byte_fallback; only Prepend and Replace of the space by U+2581 are", key,
        json_show(step));
  }

  void read_metaspace(const Json& step) {
    place_.require(json_is(step, "type", "Metaspace") && json_is(step, "replacement", kMetaspaceCharacter),
                   "pre_tokenizer {} is not supported with byte_fallback, only Metaspace of U+2581",
                   json_show(step));
    place_.require(json_member(step, "split") == false,
                   "pre_tokenizer Metaspace with split {} is not supported, only false",
                   json_show(json_member(step, "split")));
    place_.require(parts_.prefix == SpacePrefix::kNone,
                   "pre_tokenizer Metaspace after normalizer Prepend is not supported");
    parts_.metaspace = true;
    const Json& scheme = json_member(step, "prepend_scheme");
    place_.require(
        scheme == "always" || scheme == "first" || scheme == "never",
        "pre_tokenizer Metaspace with prepend_scheme {} is not supported; always, first and never are",
        json_show(scheme));
    parts_.prefix = scheme == "always"  ? SpacePrefix::kUnlessSpace
                    : scheme == "first" ? SpacePrefix::kFirstUnlessSpace
                                        : SpacePrefix::kNone;
  }

  void read_sentencepiece_decoder() {
    bool replaced = false, bytes = false;
    for (const Json& step : steps_of(json_member(root_, "decoder"), "decoders")) {
      const std::string type = type_of(step);
      if (json_is(step, "type", "Metaspace")) {
        replaced = true;
        parts_.strips_space = json_member(step, "prepend_scheme") != "never";
      } else if (json_is(step, "type", "ByteFallback")) {
        bytes = true;
      } else if (json_is(step, "type", "Strip")) {
        place_.require(json_is(step, "content", " ") && json_member(step, "start") == 1 &&
                           json_member(step, "stop") == 0,
                       "decoder {} is not supported, only of one space at the start", json_show(step));
        parts_.strips_space = true;
      } else if (json_is(step, "type", "Replace")) {
        place_.require(json_is(json_member(step, "pattern"), "String", kMetaspaceCharacter) &&
                           json_is(step, "content", " "),
                       "decoder {} is not supported, only of U+2581 by the space", json_show(step));
        replaced = true;
      } else {
        place_.require(json_is(step, "type", "Fuse"), "decoder {} is not supported with byte_fallback", type);
      }
    }
    place_.require(bytes && replaced == parts_.metaspace,
                   "the decoder is not the inverse of the normalizer: ByteFallback{} is needed",
                   parts_.metaspace ? " with Replace of U+2581 by the space" : " without Replace");
  }

  const Json& root_;
  const JsonPlace& place_;
  TokenizerParts& parts_;
  const Json& model_;
  std::string prepended_;
};

}  // namespace

Json JsonPlace::parse(std::string_view text) const {
  try {
    return Json::parse(text, [this](int depth, Json::parse_event_t, Json&) {
      require(depth <= kDeepest, "is nested more than {} deep; no tokenizer needs that", kDeepest);
      return true;
    });
  } catch (const Json::exception& error) {
    refuse("is not JSON ({}); copy it again from where it came", printable(error.what()));
  }
}

const Json& json_member(const Json& object, const char* key) {
  static const Json null;
  if (!object.is_object()) return null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

bool json_is(const Json& object, const char* key, std::string_view text) {
  const Json& value = json_member(object, key);
  return value.is_string() && value.get_ref<const std::string&>() == text;
}

std::string json_show(const Json& value) {
  const std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

void read_tokenizer_pipeline(const Json& root, const JsonPlace& place, TokenizerParts& parts) {
  Pipeline(root, place, parts).read();
}

}  // namespace tril
