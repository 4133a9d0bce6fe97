// Writes tokenizers and the ids they give, for tests/interop_scripts/check_tokenizer.py to compare with
// Hugging Face's tokenizers.
#include "tests/text/text_testing.h"
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

}  // namespace
}  // namespace tril
