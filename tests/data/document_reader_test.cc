#include "tril/data/document_reader.h"

#include <cstring>

#include "tests/support/mutate.h"
#include "tests/text/text_testing.h"
#include "tril/data/nanogpt.h"
#include "tril/text/utf8.h"

namespace tril {
namespace {

using testing::expect_contains;
using testing::message_of;
using testing::TemporaryFolder;

struct Read {
  std::vector<std::string> texts;
  std::vector<std::string> problems;
  ReaderPosition end;
};

// All documents, their pieces joined; with `skip` broken ones are left out.
Read read_all(const std::vector<Path>& paths, SourceOptions options = {}, bool skip = false) {
  Read out;
  if (skip) options.on_broken = [&](const std::string& problem) { out.problems.push_back(problem); };
  DocumentReader reader(find_sources(paths, options), options);
  DocumentPiece piece;
  while (reader.next(piece)) {
    if (piece.first) out.texts.emplace_back();
    if (piece.is_tokens)
      for (const int32_t id : piece.tokens) out.texts.back() += std::to_string(id) + " ";
    out.texts.back() += piece.text;
    if (piece.broken) out.texts.pop_back();
    EXPECT_LE(std::ssize(piece.text), std::max<int64_t>(2 * options.piece_bytes + 4, 1 << 20));
  }
  out.end = reader.position();
  return out;
}

using List = std::vector<std::string>;

TEST(Sources, WhatFoldersHold) {
  const TemporaryFolder folder;
  for (const char* name :
       {"b.txt", "a.md", "sub/c.jsonl", "sub/d.txt.gz", "e.py", ".git/f.txt", "g.png", "h.ndjson.zst"})
    folder.write(name, "x");
  List names;
  for (const SourceFile& file : find_sources({folder.path()}, {}))
    names.push_back(file.path.filename().string());
  EXPECT_EQ(names, (List{"a.md", "b.txt", "h.ndjson.zst", "c.jsonl", "d.txt.gz"}));
  SourceOptions code;
  code.extensions = code_extensions();
  EXPECT_EQ(find_sources({folder.path()}, code).size(), 6u);
  const TemporaryFolder nano;
  nano.write("train.bin", "");
  nano.write("val.bin", "");
  const std::vector<SourceFile> files = find_sources({nano.path()}, {});
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].side, SourceSide::kValidation);
}

TEST(Sources, FormatsThatAreNotReadAreRefusedWithWhatToDo) {
  const TemporaryFolder folder;
  expect_contains(
      message_of(ErrorKind::kData, [&] { find_sources({folder.write("a.parquet", "PAR1")}, {}); }),
      "to_json");
  expect_contains(message_of(ErrorKind::kData, [&] { find_sources({folder.write("a.zip", "PK")}, {}); }),
                  "unpack");
  for (const char* name : {"a.bin.gz", "a.npy.zst", "a.h5.gz"})
    expect_contains(message_of(ErrorKind::kData, [&] { find_sources({folder.write(name, "x")}, {}); }),
                    "unpack it first");
  expect_contains(message_of(ErrorKind::kData, [&] { read_all({folder.write("renamed.txt", "PAR1....")}); }),
                  "Parquet");
  expect_contains(message_of(ErrorKind::kUse, [] { find_sources({"-", "-"}, {}); }), "once");
  expect_contains(message_of(ErrorKind::kUse, [] { parse_encoding("ebcdic"); }), "windows-1252");
}

TEST(DocumentReader, SeparatorsCutTextFiles) {
  const TemporaryFolder folder;
  SourceOptions options;
  options.separator = "<|end|>\n";
  const Path path = folder.write("a.txt", "one\n<|end|>\ntwo<|end|>\n<|end|>\n \n<|end|>\nthree\n<|end|>\n");
  const Read read = read_all({path}, options);
  EXPECT_EQ(read.texts, (List{"one\n", "two", "three\n"}));
  EXPECT_EQ(read.end.skipped_empty, 2);
}

TEST(DocumentReader, ASeparatorBehindTwoPiecesIsNoText) {
  const TemporaryFolder folder;
  SourceOptions options;
  options.separator = "<|endoftext|>";
  for (size_t size = 262'143; size < 262'151; ++size) {
    const std::string text(size, 'x');
    EXPECT_TRUE(read_all({folder.write("a.txt", text + options.separator)}, options).texts == List{text});
  }
}

TEST(DocumentReader, LargeDocumentsComeInPiecesThatAreTheWhole) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < 40'000; ++i)
    text += i % 50 == 0 ? std::string(700, 'x')
                        : "caf\xC3\xA9 number " + std::to_string(i) + (i % 3 == 0 ? "\n" : " ");
  const Path path = folder.write("a.txt", text + "<sep>" + text + "tail");
  for (const int64_t piece_bytes : {64, 100, 1000, 1 << 20}) {
    SourceOptions options;
    options.separator = "<sep>";
    options.piece_bytes = piece_bytes;
    EXPECT_TRUE(read_all({path}, options).texts == (List{text, text + "tail"})) << piece_bytes;
    // From every piece on, reading goes on as before.
    DocumentReader reader(find_sources({path}, options), options);
    std::vector<ReaderPosition> places;
    List pieces;
    DocumentPiece piece;
    while (reader.next(piece)) {
      EXPECT_FALSE(first_invalid_utf8(piece.text).has_value());
      pieces.push_back(piece.text);
      places.push_back(reader.position());
    }
    for (size_t i = 0; i < places.size(); i += 1 + places.size() / 20) {
      DocumentReader again(find_sources({path}, options), options, places[i]);
      for (size_t j = i + 1; j < pieces.size() && j < i + 4; ++j) {
        ASSERT_TRUE(again.next(piece));
        ASSERT_EQ(piece.text, pieces[j]) << piece_bytes;
        ASSERT_EQ(again.position().offset, places[j].offset);
      }
    }
  }
}

TEST(DocumentReader, PiecesEndWherePatternsSplit) {
  const std::string lines = "aaaa aaaa\n\n  bbb\n/cc\ndddd eeee ffff gggg hhhh";
  EXPECT_EQ(lines.substr(0, piece_end(lines, 12)), "aaaa aaaa\n\n  bbb\n/cc\n");
  const std::string words(std::string(20, 'a') + " b" + std::string(40, 'c'));
  EXPECT_EQ(piece_end(words, 15), 20u);
  std::string wide;
  while (wide.size() < 80) wide += "\xE4\xB8\xAD";
  EXPECT_EQ(piece_end(wide, 20) % 3, 0u);
}

TEST(DocumentReader, JsonLines) {
  const TemporaryFolder folder;
  const Path path =
      folder.write("a.jsonl",
                   "\xEF\xBB\xBF{\"text\":\"one\\n\"}\r\n\n{\"id\":1,\"text\":\"\"}\n"
                   "{\"body\":\"no\"}\n{\"text\":\"two\"\n{\"text\":\"\\u0000\"}\n{\"text\":\"three\"}");
  const Read read = read_all({path}, {}, /*skip=*/true);
  EXPECT_EQ(read.texts, (List{"one\n", "three"}));
  ASSERT_EQ(read.problems.size(), 3u);
  expect_contains(read.problems[0], "a.jsonl, line 4: no field 'text'; there is 'body'");
  expect_contains(read.problems[1], "line 5");
  expect_contains(read.problems[2], "line 6: in the text: not a text file (a NUL byte");
  EXPECT_EQ(read.end.skipped_empty, 1);
  EXPECT_EQ(read.end.skipped_broken, 3);
  expect_contains(message_of(ErrorKind::kData, [&] { read_all({path}); }), "line 4");
  SourceOptions other;
  other.field = "body";
  expect_contains(message_of(ErrorKind::kData, [&] { read_all({path}, other); }), "line 1");
}

TEST(DocumentReader, ABrokenDocumentIsOneOfMany) {
  const TemporaryFolder folder;
  SourceOptions options;
  options.separator = "|";
  options.piece_bytes = 64;
  std::string late(300, 'a');
  for (size_t i = 40; i < late.size(); i += 41) late[i] = ' ';
  const std::string fine = late;
  late[250] = '\xE9';
  const Path path = folder.write("a.txt", "one|" + late + "|two|\xFF|" + fine);
  const Read read = read_all({path}, options, /*skip=*/true);
  EXPECT_EQ(read.texts, (List{"one", "two", fine}));
  ASSERT_EQ(read.problems.size(), 2u);
  expect_contains(read.problems[0], "byte offset 254 (0xe9)");
  expect_contains(message_of(ErrorKind::kData, [&] { read_all({path}, options); }), "--encoding latin-1");
}

TEST(DocumentReader, Encodings) {
  const TemporaryFolder folder;
  const std::string text = "na\xC3\xAFve \xE2\x82\xAC \xF0\x9F\x8C\x8D\n";
  const auto utf16 = [](bool big, bool mark) {
    std::string out;
    for (const int unit : std::initializer_list<int>{0xFEFF, 'n', 'a', 0xEF, 'v', 'e', ' ', 0x20AC, ' ',
                                                     0xD83C, 0xDF0D, '\n'}) {
      if (unit == 0xFEFF && !mark) continue;
      const char high = static_cast<char>(unit >> 8), low = static_cast<char>(unit & 0xFF);
      out += big ? std::string{high, low} : std::string{low, high};
    }
    return out;
  };
  const auto read = [&](const std::string& bytes, TextEncoding encoding) {
    SourceOptions options;
    options.encoding = encoding;
    return read_all({folder.write("a.txt", bytes)}, options).texts;
  };
  EXPECT_EQ(read(utf16(false, true), TextEncoding::kUtf16), List{text});
  EXPECT_EQ(read(utf16(true, true), TextEncoding::kUtf16), List{text});
  EXPECT_EQ(read(utf16(true, false), TextEncoding::kUtf16Be), List{text});
  EXPECT_EQ(read(utf16(false, false), TextEncoding::kUtf16Le), List{text});
  EXPECT_EQ(read("na\xEFve \x80", TextEncoding::kWindows1252), List{"na\xC3\xAFve \xE2\x82\xAC"});
  EXPECT_EQ(read("na\xEFve \x80", TextEncoding::kLatin1), List{"na\xC3\xAFve \xC2\x80"});
  for (const bool big : {false, true})
    for (const bool mark : {false, true})
      expect_contains(message_of(ErrorKind::kData, [&] { read(utf16(big, mark), TextEncoding::kUtf8); }),
                      "--encoding utf-16");
  // Half a pair, half a unit: told with their place in the file, also behind a mark, wide characters, pieces.
  for (const std::string& bytes : {std::string("a\0\x3C\xD8", 4), std::string("a\0b", 3)})
    expect_contains(message_of(ErrorKind::kData, [&] { read(bytes, TextEncoding::kUtf16Le); }),
                    "damaged UTF-16 at byte 2 of the file");
  std::string many = utf16(false, true);
  while (many.size() < 1'000'000) many += utf16(false, false);
  const std::string place = "damaged UTF-16 at byte " + std::to_string(many.size()) + " of the file";
  many += '\xD8';
  expect_contains(message_of(ErrorKind::kData, [&] { read(many, TextEncoding::kUtf16); }), place);
  SourceOptions options;
  options.encoding = TextEncoding::kUtf16;
  const Path lines = folder.write("a.jsonl", std::string("{\0}\0\n\0\xD8", 7));
  expect_contains(message_of(ErrorKind::kData, [&] { read_all({lines}, options); }), "line 1");
  const Read skipped = read_all({lines}, options, /*skip=*/true);
  ASSERT_EQ(skipped.problems.size(), 2u);
  expect_contains(skipped.problems[1], "line 2: damaged UTF-16 at byte 6 of the file");
}

TEST(DocumentReader, TokenFilesOfOtherPrograms) {
  const TemporaryFolder folder;
  SourceOptions options;
  options.vocabulary = 300;
  options.end_of_text = 256;
  const auto tokens = [](std::initializer_list<uint16_t> ids) {
    return std::string(reinterpret_cast<const char*>(ids.begin()), 2 * ids.size());
  };
  EXPECT_EQ(read_all({folder.write("nano.bin", tokens({1, 2, 256, 3, 256}))}, options).texts,
            (List{"1 2 ", "3 "}));
  std::string shard(1024, '\0');
  const int32_t header[3] = {20240520, 1, 5};
  std::memcpy(shard.data(), header, sizeof header);
  EXPECT_EQ(read_all({folder.write("llmc.bin", shard + tokens({256, 1, 2, 256, 3}))}, options).texts,
            (List{"1 2 ", "3 "}));
  const auto refuse = [&](const std::string& bytes, const std::string& part) {
    const Path path = folder.write("bad.bin", bytes);
    const std::string message = message_of(ErrorKind::kData, [&] { read_all({path}, options); });
    expect_contains(message, "bad.bin");
    expect_contains(message, part);
  };
  refuse("abc", "16-bit tokens");
  refuse(shard + tokens({1, 2}), "cut");
  refuse(tokens({1, 300}), "token 1 has id 300");
  options.undefined.resize(300);
  options.undefined[7] = true;
  refuse(tokens({1, 2, 7}), "token 2 has id 7, which stands for nothing");
  const Path path = folder.write("nano.bin", tokens({1}));
  expect_contains(message_of(ErrorKind::kUse, [&] { read_all({path}); }), "--tokenizer");
}

TEST(NanoGpt, CharactersOfMetaPkl) {
  const TemporaryFolder folder;
  const Path bin = folder.write("train.bin", "");
  EXPECT_FALSE(nanogpt_tokenizer(bin).has_value());
  // pickle.dumps({'vocab_size': 2, 'stoi': {'a': 0, '\xE9': 1}, 'itos': {0: 'a', 1: '\xE9'}}, 2)
  constexpr char kPickle[] =
      "\x80\x02}q\x00(X\x0a\x00\x00\x00vocab_sizeq\x01K\x02X\x04\x00\x00\x00stoiq\x02}q\x03(X\x01\x00\x00\x00"
      "aq\x04K\x00X\x02\x00\x00\x00\xC3\xA9q\x05K\x01uX\x04\x00\x00\x00itosq\x06}q\x07("
      "K\x00h\x04K\x01h\x05uu.";
  const std::string whole(kPickle, sizeof(kPickle) - 1);
  folder.write("meta.pkl", whole);
  const auto tokenizer = nanogpt_tokenizer(bin);
  ASSERT_TRUE(tokenizer.has_value());
  EXPECT_EQ(tokenizer->encode("\xC3\xA9"
                              "a"),
            (std::vector<int32_t>{1, 0}));
  int read = 0;
  for (uint64_t i = 0; i < 800; ++i) {
    folder.write("meta.pkl", testing::mutate(whole, RandomStream(4, "pickle", i)));
    read += testing::ends_well([&] { nanogpt_tokenizer(bin); });
  }
  EXPECT_GT(read, 20);
  EXPECT_LT(read, 700);
  // What would run code in Python is a name here, and no characters.
  folder.write("meta.pkl",
               "\x80\x02"
               "cos\nsystem\n.");
  expect_contains(message_of(ErrorKind::kData, [&] { nanogpt_tokenizer(bin); }), "names no characters");
}

TEST(DocumentReader, DamagedFiles) {
  const TemporaryFolder folder;
  const std::string lines =
      "{\"text\":\"one\\n\"}\n{\"text\":\"caf\xC3\xA9 \\u00e9\"}\n{\"id\":3,\"text\":\"three\"}\n";
  for (uint64_t i = 0; i < 1500; ++i) {
    SourceOptions options;
    options.separator = i % 3 == 0 ? "\n" : "";
    options.piece_bytes = 64;
    options.encoding = i % 5 == 0 ? TextEncoding::kUtf16 : TextEncoding::kUtf8;
    const Path path =
        folder.write(i % 2 == 0 ? "a.txt" : "a.jsonl", testing::mutate(lines, RandomStream(9, "lines", i)));
    testing::ends_well([&] {
      for (const std::string& text : read_all({path}, options, /*skip=*/i % 7 != 0).texts) {
        EXPECT_FALSE(first_invalid_utf8(text).has_value());
        EXPECT_EQ(text.find('\0'), text.npos);
      }
    });
  }
}

}  // namespace
}  // namespace tril
