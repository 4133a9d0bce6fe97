#include "tril/data/sources.h"

#include <algorithm>
#include <array>

#include "tril/base/error.h"
#include "tril/base/printable.h"

namespace tril {
namespace {

std::string lower(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// ".jsonl" of "a.jsonl.gz".
std::string inner_extension(const Path& path) {
  Path name = path.filename();
  for (const char* packed : {".gz", ".zst"})
    if (lower(name.extension().string()) == packed) return lower(name.stem().extension().string());
  return lower(name.extension().string());
}

bool is_one_of(const std::string& word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool in_folders(const Path& path, const SourceOptions& options) {
  const std::string extension = inner_extension(path);
  return is_one_of(extension, {".txt", ".text", ".md", ".markdown", ".jsonl", ".ndjson"}) ||
         std::find(options.extensions.begin(), options.extensions.end(), extension) !=
             options.extensions.end();
}

void refuse_unread(const Path& path) {
  const std::string extension = inner_extension(path), name = printable(path.string());
  check_data(
      !is_one_of(extension, {".parquet", ".arrow", ".feather"}),
      "{}: {} is not read here; write its text column as JSON lines first: python3 -c \"import "
      "pandas, sys; pandas.read_parquet(sys.argv[1]).to_json(sys.argv[2], orient='records', lines=True)\" "
      "IN OUT.jsonl",
      name, extension == ".parquet" ? "Parquet" : "Arrow");
  check_data(!is_one_of(extension, {".zip", ".tar", ".tgz", ".7z", ".bz2", ".xz", ".rar"}),
             "{}: archives are not read here; unpack it and give the folder", name);
  check_data(!is_one_of(extension, {".pdf", ".docx", ".epub", ".odt"}),
             "{}: this is no plain text; convert it first, for example with pandoc or pdftotext", name);
  check_data(!has_token_ids(format_of_name(path)) || extension == lower(path.extension().string()),
             "{}: compressed token ids are not read here; unpack it first", name);
}

std::vector<Path> files_below(const Path& folder, const SourceOptions& options) {
  std::vector<Path> files;
  std::error_code error;
  std::filesystem::recursive_directory_iterator at(folder, error);
  for (; !error && at != std::filesystem::recursive_directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (at->path().filename().native().starts_with('.')) {
      if (at->is_directory(ignored)) at.disable_recursion_pending();
      continue;
    }
    if (in_folders(at->path(), options) && at->is_regular_file(ignored)) files.push_back(at->path());
  }
  check_data(!error, "{}: the folder cannot be read: {}; check its permissions", printable(folder.string()),
             error.message());
  // The order must not depend on the file system.
  std::sort(files.begin(), files.end());
  return files;
}

void add_folder(const Path& folder, const SourceOptions& options, std::vector<SourceFile>& out) {
  const std::vector<Path> files = files_below(folder, options);
  for (const Path& file : files) out.push_back({file, format_of_name(file), true, SourceSide::kBySplit});
  if (!files.empty()) return;
  std::error_code ignored;
  const Path train = folder / "train.bin", validation = folder / "val.bin";
  check_data(std::filesystem::is_regular_file(train, ignored),
             "{}: no *.txt, *.md or *.jsonl files in this folder or below; name the files themselves, or the "
             "endings to look for with --extensions",
             printable(folder.string()));
  const bool both = std::filesystem::is_regular_file(validation, ignored);
  out.push_back({train, SourceFormat::kTokenBin, false, both ? SourceSide::kTrain : SourceSide::kBySplit});
  if (both) out.push_back({validation, SourceFormat::kTokenBin, false, SourceSide::kValidation});
}

struct EncodingName {
  std::string_view name;
  TextEncoding encoding;
};
constexpr EncodingName kEncodings[] = {
    {"utf-8", TextEncoding::kUtf8},       {"utf-16", TextEncoding::kUtf16},
    {"utf-16le", TextEncoding::kUtf16Le}, {"utf-16be", TextEncoding::kUtf16Be},
    {"latin-1", TextEncoding::kLatin1},   {"windows-1252", TextEncoding::kWindows1252}};

}  // namespace

SourceFormat format_of_name(const Path& path) {
  const std::string extension = inner_extension(path);
  if (is_one_of(extension, {".jsonl", ".ndjson"})) return SourceFormat::kJsonLines;
  if (extension == ".npy") return SourceFormat::kNumPy;
  if (is_one_of(extension, {".h5", ".hdf5"})) return SourceFormat::kHdf5;
  if (extension == ".bin") return SourceFormat::kTokenBin;
  return SourceFormat::kText;
}

bool is_read_once(const Path& path) {
  std::error_code ignored;
  return path == "-" || std::filesystem::is_other(path, ignored);
}

std::vector<SourceFile> find_sources(const std::vector<Path>& paths, const SourceOptions& options) {
  check_use(!paths.empty(), "no text given; name a file, a folder, or - for standard input");
  std::vector<SourceFile> files;
  bool standard_input = false;
  for (const Path& path : paths) {
    if (path == "-") {
      check_use(!standard_input, "-: standard input can be read once; name it once");
      standard_input = true;
      files.push_back({path, SourceFormat::kText, false, SourceSide::kBySplit});
      continue;
    }
    std::error_code ignored;
    if (std::filesystem::is_directory(path, ignored)) {
      add_folder(path, options, files);
      continue;
    }
    refuse_unread(path);
    files.push_back({path, format_of_name(path), false, SourceSide::kBySplit});
  }
  return files;
}

TextEncoding parse_encoding(std::string_view name) {
  for (const EncodingName& known : kEncodings)
    if (lower(std::string(name)) == known.name) return known.encoding;
  fail(ErrorKind::kUse,
       "--encoding {}: not known; give utf-8, utf-16, utf-16le, utf-16be, latin-1 or windows-1252",
       printable(name));
}

const std::vector<std::string>& code_extensions() {
  static const std::vector<std::string> kCode = {
      ".c",   ".h",    ".cc", ".cpp", ".cxx",  ".hpp", ".hh",  ".py",    ".js",   ".ts",    ".jsx",
      ".tsx", ".java", ".go", ".rs",  ".rb",   ".php", ".cs",  ".swift", ".kt",   ".scala", ".sh",
      ".sql", ".r",    ".jl", ".lua", ".pl",   ".hs",  ".ml",  ".ex",    ".erl",  ".clj",   ".lisp",
      ".zig", ".f90",  ".m",  ".css", ".html", ".rst", ".tex", ".cmake", ".toml", ".yaml",  ".yml"};
  return kCode;
}

}  // namespace tril
