// Writes tokenizers and the ids they give, for tests/interop_scripts/check_tokenizer.py to compare with
// Hugging Face's tokenizers and with tiktoken.
#include <map>

#include "tests/text/text_testing.h"
#include "tril/text/bpe.h"
#include "tril/text/split_patterns.h"
#include "tril/text/tokenizer.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using Views = std::vector<std::string_view>;

void write_case(const std::filesystem::path& folder, const std::string& name, const Tokenizer& tokenizer,
                const std::string& text) {
  std::filesystem::create_directories(folder / name);
  tokenizer.save(folder / name / "tokenizer.json");
  std::ofstream(folder / name / "text.txt", std::ios::binary) << text;
  std::ofstream ids(folder / name / "ids.txt");
  for (const int32_t id : tokenizer.encode(text)) ids << id << ' ';
}

TEST(TokenizerInterop, WritesCases) {
  TRIL_NEEDS_TEST_DATA();
  const char* out = std::getenv("TRIL_TOKENIZER_CASES");
  if (out == nullptr) GTEST_SKIP() << "TRIL_TOKENIZER_CASES is not set; check_tokenizer.py sets it";
  for (const std::string name : {"tinyshakespeare", "names", "udhr_27lang", "code_stb"}) {
    const std::string text = testing::slurp(*testing::test_data() / "corpus" / (name + ".txt"));
    write_case(out, name + "-bpe", Tokenizer::train_bpe(Views{text}, 2048), text);
    write_case(out, name + "-byte", Tokenizer::bytes(true), text);
    write_case(out, name + "-char", Tokenizer::characters(Views{text}, true), text);
    write_case(out, name + "-char-plain", Tokenizer::characters(Views{text}, false), text);
  }
  std::string mixed;
  for (uint64_t seed = 0; seed < 200; ++seed) mixed += testing::random_text(seed, 500, true);
  write_case(out, "mixed-bpe", Tokenizer::train_bpe(Views{mixed}, 1000), mixed);
}

// The ranks of a .tiktoken file as merges: each token's are the two parts that lower ranks leave of it.
BpeModel model_of_ranks(const std::filesystem::path& path, const Pretokenizer& pretokenizer) {
  std::vector<std::string> tokens;
  std::map<std::string, int32_t> ids;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    tokens.push_back(testing::from_base64(line.substr(0, line.find(' '))));
    ids.emplace(tokens.back(), static_cast<int32_t>(tokens.size()) - 1);
  }
  std::vector<Merge> merges;
  ByteIds byte_ids{};
  for (const std::string& token : tokens) {
    const int32_t id = ids.at(token);
    if (token.size() == 1) byte_ids[static_cast<unsigned char>(token[0])] = id;
    std::vector<std::string> parts;
    for (const char byte : token) parts.emplace_back(1, byte);
    while (parts.size() > 2) {
      size_t best = 0;
      int32_t lowest = id;
      for (size_t i = 0; i + 1 < parts.size(); ++i) {
        const auto found = ids.find(parts[i] + parts[i + 1]);
        if (found == ids.end() || found->second >= lowest) continue;
        lowest = found->second;
        best = i;
      }
      if (lowest == id) break;
      parts[best] += parts[best + 1];
      parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    if (parts.size() == 2) merges.push_back({ids.at(parts[0]), ids.at(parts[1]), id});
  }
  return BpeModel(tokens, byte_ids, merges, {pretokenizer, true});
}

TEST(TokenizerInterop, WritesCasesOfRanks) {
  TRIL_NEEDS_TEST_DATA();
  const char* out = std::getenv("TRIL_TOKENIZER_CASES");
  if (out == nullptr) GTEST_SKIP() << "TRIL_TOKENIZER_CASES is not set; check_tokenizer.py sets it";
  std::string text;
  for (const std::string name : {"tinyshakespeare", "names", "udhr_27lang", "code_stb"}) {
    text += testing::slurp(*testing::test_data() / "corpus" / (name + ".txt")) + "\n \n";
  }
  for (uint64_t seed = 0; seed < 400; ++seed) text += testing::random_text(seed, 300, true);
  const RandomStream random(1, "any characters");
  for (uint64_t i = 0; i < 300'000; ++i) {
    const auto c = static_cast<char32_t>(random.below(2 * i, i % 3 == 0   ? 0x110000
                                                             : i % 3 == 1 ? 0x3000
                                                                          : 0x80));
    if (c < 0xD800 || c >= 0xE000) utf8_append(text, c);
  }
  for (const auto& [ranks, pattern] :
       std::vector<std::pair<std::string, std::string>>{{"r50k_base", "gpt2"},
                                                        {"cl100k_base", "cl100k"},
                                                        {"cl100k_base", "o200k"},
                                                        {"cl100k_base", "llama3"},
                                                        {"cl100k_base", "qwen2"}}) {
    const auto folder = std::filesystem::path(out) / fmt::format("ranks-{}-{}", ranks, pattern);
    const std::vector<std::string> splits = *splits_of_name(pattern);
    std::filesystem::create_directories(folder);
    const auto file = *testing::test_data() / "tokenizer" / (ranks + ".tiktoken");
    std::ofstream(folder / "ranks.txt") << file.string();
    std::ofstream(folder / "pattern.txt") << splits.front();
    std::ofstream(folder / "text.txt", std::ios::binary) << text;
    std::vector<int32_t> ids;
    model_of_ranks(file, pretokenizer_of(splits)).encode(text, ids);
    std::ofstream all(folder / "ids.txt");
    for (const int32_t id : ids) all << id << ' ';
  }
}

}  // namespace
}  // namespace tril
