#include <algorithm>

#include "tril/base/error.h"
#include "tril/text/byte_alphabet.h"
#include "tril/text/split_patterns.h"
#include "tril/text/token_names.h"
#include "tril/text/tokenizer_json_parts.h"

namespace tril {
namespace {

using Kind = Tokenizer::Kind;

std::string quote(std::string_view text) { return TokenizerJson(text).dump(); }

const char* boolean(bool value) { return value ? "true" : "false"; }

std::string added_tokens(const TokenizerParts& parts) {
  std::string out;
  for (const SpecialToken& token : parts.specials) {
    out += fmt::format(
        "{}\n    {{\"id\": {}, \"content\": {}, \"single_word\": false, \"lstrip\": false, \"rstrip\": "
        "false, \"normalized\": false, \"special\": {}}}",
        out.empty() ? "" : ",", token.id, quote(token.content), boolean(token.control));
  }
  return out.empty() ? "[]" : "[" + out + "\n  ]";
}

// How each id is spelled; empty: it has no token.
std::vector<std::string> spellings(const TokenizerParts& parts) {
  std::vector<std::string> out;
  for (size_t id = 0; id < parts.tokens.size(); ++id) {
    const std::string& bytes = parts.tokens[id];
    if (bytes.empty() || parts.kind == Kind::kCharacter) {
      out.push_back(bytes);
    } else if (parts.kind != Kind::kSentencePiece) {
      out.push_back(spell_bytes(bytes));
    } else {
      // What is not joinable under U+2581 for spaces was spelled with a space, which no text has there.
      const bool replaced = parts.metaspace && parts.joinable[id];
      out.push_back(replaced ? with_replaced(bytes, " ", kMetaspaceCharacter) : bytes);
    }
  }
  if (parts.kind == Kind::kSentencePiece) {
    for (size_t byte = 0; byte < 256; ++byte)
      out[static_cast<size_t>(parts.byte_tokens[byte])] = byte_token_name(static_cast<uint8_t>(byte));
  }
  for (const SpecialToken& token : parts.specials) out[static_cast<size_t>(token.id)] = token.content;
  return out;
}

std::string byte_level(bool regex) {
  return fmt::format(
      "{{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": {}}}",
      boolean(regex));
}

std::string pre_tokenizer(const TokenizerParts& parts) {
  if (parts.kind == Kind::kCharacter || parts.kind == Kind::kSentencePiece) return "null";
  std::string steps;
  const bool gpt2 = !parts.splits.empty() && parts.splits.back() == kGpt2Split;
  for (size_t i = 0; i + (gpt2 ? 1 : 0) < parts.splits.size(); ++i) {
    if (parts.splits[i] == kDigitSplit) {
      steps += "{\"type\": \"Digits\", \"individual_digits\": true}, ";
    } else {
      steps += fmt::format(
          "{{\"type\": \"Split\", \"pattern\": {{\"Regex\": {}}}, \"behavior\": \"Isolated\", \"invert\": "
          "false}}, ",
          quote(parts.splits[i]));
    }
  }
  if (steps.empty()) return byte_level(gpt2);
  return fmt::format("{{\"type\": \"Sequence\", \"pretokenizers\": [{}{}]}}", steps, byte_level(gpt2));
}

std::string post_processor(const TokenizerParts& parts) {
  const auto found = std::find_if(parts.specials.begin(), parts.specials.end(),
                                  [&](const SpecialToken& token) { return token.id == parts.begin_of_text; });
  if (parts.begin_of_text < 0 || found == parts.specials.end()) return "null";
  const std::string name = quote(found->content);
  const std::string special = fmt::format("{{\"SpecialToken\": {{\"id\": {}, \"type_id\": 0}}}}", name);
  const auto sequence = [](const char* id, int type) {
    return fmt::format("{{\"Sequence\": {{\"id\": \"{}\", \"type_id\": {}}}}}", id, type);
  };
  return fmt::format(
      "{{\"type\": \"TemplateProcessing\", \"single\": [{0}, {1}], \"pair\": [{0}, {1}, {2}], "
      "\"special_tokens\": "
      "{{{3}: {{\"id\": {3}, \"ids\": [{4}], \"tokens\": [{3}]}}}}}}",
      special, sequence("A", 0), sequence("B", 1), name, parts.begin_of_text);
}

struct Ends {
  std::string normalizer = "null", decoder;
};

Ends sentencepiece_ends(const TokenizerParts& parts) {
  const std::string space = parts.metaspace ? std::string(kMetaspaceCharacter) : " ";
  std::vector<std::string> steps, decoders;
  if (parts.prefix == SpacePrefix::kAlways)
    steps.push_back(fmt::format("{{\"type\": \"Prepend\", \"prepend\": \"{}\"}}", space));
  if (parts.metaspace) {
    steps.push_back(fmt::format(
        "{{\"type\": \"Replace\", \"pattern\": {{\"String\": \" \"}}, \"content\": \"{}\"}}", space));
    decoders.push_back(fmt::format(
        "{{\"type\": \"Replace\", \"pattern\": {{\"String\": \"{}\"}}, \"content\": \" \"}}", space));
  }
  decoders.insert(decoders.end(), {"{\"type\": \"ByteFallback\"}", "{\"type\": \"Fuse\"}"});
  if (parts.strips_space)
    decoders.emplace_back("{\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}");
  Ends ends;
  if (!steps.empty())
    ends.normalizer =
        fmt::format("{{\"type\": \"Sequence\", \"normalizers\": [{}]}}", fmt::join(steps, ", "));
  ends.decoder = fmt::format("{{\"type\": \"Sequence\", \"decoders\": [{}]}}", fmt::join(decoders, ", "));
  return ends;
}

std::string metaspace_pre_tokenizer(const TokenizerParts& parts) {
  return fmt::format(
      "{{\"type\": \"Metaspace\", \"replacement\": \"{}\", \"prepend_scheme\": \"{}\", \"split\": false}}",
      kMetaspaceCharacter, parts.prefix == SpacePrefix::kUnlessSpace ? "always" : "first");
}

std::string format_vocabulary(const TokenizerParts& parts, const std::vector<std::string>& spelled) {
  std::string out;
  for (size_t id = 0; id < spelled.size(); ++id) {
    if (!spelled[id].empty())
      out += fmt::format("{}\n      {}: {}", out.empty() ? "" : ",", quote(spelled[id]), id);
  }
  const std::vector<Merge> merges =
      parts.kind == Kind::kSentencePiece ? merges_of_scores(parts) : parts.merges;
  // Pairs where a token may hold a space, which "a b" cannot say.
  const bool pairs = parts.kind == Kind::kSentencePiece && !parts.metaspace;
  out += "\n    },\n    \"merges\": [";
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string& left = spelled[static_cast<size_t>(merges[rank].left)];
    const std::string& right = spelled[static_cast<size_t>(merges[rank].right)];
    out +=
        fmt::format("{}\n      {}", rank == 0 ? "" : ",",
                    pairs ? fmt::format("[{}, {}]", quote(left), quote(right)) : quote(left + " " + right));
  }
  return out + (merges.empty() ? "]" : "\n    ]");
}

}  // namespace

std::string format_tokenizer_json(const TokenizerParts& parts) {
  const bool sentencepiece = parts.kind == Kind::kSentencePiece;
  const std::vector<std::string> spelled = spellings(parts);
  Ends ends;
  if (sentencepiece) {
    ends = sentencepiece_ends(parts);
  } else if (parts.nfc) {
    ends.normalizer = "{\"type\": \"NFC\"}";
  }
  std::string pre = pre_tokenizer(parts);
  if (parts.kind == Kind::kCharacter) ends.decoder = "{\"type\": \"Fuse\"}";
  if (ends.decoder.empty()) {
    ends.decoder =
        "{\"type\": \"ByteLevel\", \"add_prefix_space\": true, \"trim_offsets\": true, \"use_regex\": true}";
  }
  if (parts.prefix == SpacePrefix::kUnlessSpace || parts.prefix == SpacePrefix::kFirstUnlessSpace) {
    ends.normalizer = "null";
    pre = metaspace_pre_tokenizer(parts);
  }
  std::string unknown = "null";
  for (const SpecialToken& token : parts.specials)
    if (token.id == parts.unknown) unknown = quote(token.content);
  return fmt::format(
      "{{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n  \"added_tokens\": {},\n"
      "  \"normalizer\": {},\n  \"pre_tokenizer\": {},\n  \"post_processor\": {},\n  \"decoder\": {},\n"
      "  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n"
      "    \"continuing_subword_prefix\": {},\n    \"end_of_word_suffix\": {},\n    \"fuse_unk\": {},\n"
      "    \"byte_fallback\": {},\n    \"ignore_merges\": {},\n    \"vocab\": {{{}\n  }}\n}}\n",
      added_tokens(parts), ends.normalizer, pre, post_processor(parts), ends.decoder, unknown,
      sentencepiece ? "null" : "\"\"", sentencepiece ? "null" : "\"\"", boolean(sentencepiece),
      boolean(sentencepiece), boolean(parts.whole_pieces), format_vocabulary(parts, spelled));
}

}  // namespace tril
