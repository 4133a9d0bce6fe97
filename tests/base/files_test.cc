#include "tril/base/files.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>

#include "tests/support/expect_error.h"
#include "tests/support/temporary_directory.h"

namespace tril {
namespace {

using testing::expect_error;
using testing::TemporaryDirectory;
namespace fs = std::filesystem;

// Files of a directory, by name.
std::vector<std::string> names_in(const fs::path& directory) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(directory)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

TEST(Files, WriteThenReadBothWays) {
  const TemporaryDirectory dir;
  const std::string content("a\0b\nc", 5);
  write_file_atomic(dir / "f", content);
  EXPECT_EQ(read_text_file(dir / "f"), content);
  EXPECT_EQ(MappedFile(dir / "f").text(), content);
  EXPECT_EQ(MappedFile(dir / "f").bytes().size(), 5u);
  EXPECT_EQ(names_in(dir.path()), Names{"f"});
}

TEST(Files, RelativeNameWithoutAFolder) {
  const TemporaryDirectory dir;
  const fs::path before = fs::current_path();
  fs::current_path(dir.path());
  write_file_atomic("f", "x");
  make_directories("d");
  rename_durably("d", "e");
  sync_directory("");
  fs::current_path(before);
  EXPECT_EQ(names_in(dir.path()), (Names{"e", "f"}));
}

TEST(Files, EmptyFileMapsToNothing) {
  const TemporaryDirectory dir;
  write_file_atomic(dir / "f", "");
  const MappedFile file(dir / "f");
  EXPECT_TRUE(file.bytes().empty());
  EXPECT_TRUE(file.text().empty());
  EXPECT_EQ(read_text_file(dir / "f"), "");
}

TEST(Files, MappingMovesAndSurvivesReplacement) {
  const TemporaryDirectory dir;
  write_file_atomic(dir / "f", "old");
  MappedFile a(dir / "f");
  MappedFile b(std::move(a));
  write_file_atomic(dir / "f", "newer");
  EXPECT_EQ(b.text(), "old");
  b = MappedFile(dir / "f");
  EXPECT_EQ(b.text(), "newer");
}

TEST(Files, LargeContentAndGrowingStreams) {
  const TemporaryDirectory dir;
  std::string content(3 << 20, '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 31 >> 8);
  write_file_atomic(dir / "f", content);
  EXPECT_TRUE(read_text_file(dir / "f") == content);
  EXPECT_FALSE(read_text_file("/proc/self/status").empty());  // its size says 0
}

TEST(Files, WithoutCommitTheOldFileStays) {
  const TemporaryDirectory dir;
  write_file_atomic(dir / "f", "old");
  {
    AtomicFile file(dir / "f");
    file.write("half of the new");
    EXPECT_EQ(read_text_file(dir / "f"), "old");
    EXPECT_EQ(names_in(dir.path()), (Names{"f", "f.tril-tmp"}));
  }
  EXPECT_EQ(read_text_file(dir / "f"), "old");
  EXPECT_EQ(names_in(dir.path()), Names{"f"});
}

TEST(Files, LeftOverTemporaryIsReplaced) {
  const TemporaryDirectory dir;
  append_to_file(dir / "f.tril-tmp", "a longer text that a killed process left behind");
  write_file_atomic(dir / "f", "new");
  EXPECT_EQ(read_text_file(dir / "f"), "new");
  EXPECT_EQ(names_in(dir.path()), Names{"f"});
}

TEST(Files, TwoWritersOfOneFileAreRefused) {
  const TemporaryDirectory dir;
  AtomicFile first(dir / "f");
  first.write("first");
  expect_error(ErrorKind::kData, {"/f: another process is writing"}, [&] { AtomicFile second(dir / "f"); });
  first.commit();
  EXPECT_EQ(read_text_file(dir / "f"), "first");
  write_file_atomic(dir / "f", "second");
  EXPECT_EQ(read_text_file(dir / "f"), "second");
}

TEST(Files, UseAfterCommitIsRefused) {
  const TemporaryDirectory dir;
  AtomicFile file(dir / "f");
  file.write("x");
  file.commit();
  expect_error(ErrorKind::kUse, {"/f: write after commit()"}, [&] { file.write("y"); });
  expect_error(ErrorKind::kUse, {"/f: commit() after commit()"}, [&] { file.commit(); });
  EXPECT_EQ(read_text_file(dir / "f"), "x");
}

TEST(Files, PermissionsOfTheOldFileAreKept) {
  const TemporaryDirectory dir;
  write_file_atomic(dir / "f", "x");
  ASSERT_EQ(::chmod((dir / "f").c_str(), 0640), 0);
  write_file_atomic(dir / "f", "y");
  struct stat info {};
  ASSERT_EQ(::stat((dir / "f").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0640u);
}

// A limit on the size of files makes write() first fall short, then fail: as a full disk does.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit{bytes, old_.rlim_max};
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, handler_);
  }

 private:
  rlimit old_{};
  void (*handler_)(int) = nullptr;
};

TEST(Files, FailedWriteLeavesTheOldFileAndNoTemporary) {
  const TemporaryDirectory dir;
  write_file_atomic(dir / "f", "old");
  AtomicFile file(dir / "f");
  {
    const FileSizeLimit limit(1000);
    file.write(std::string(600, 'a'));
    expect_error(ErrorKind::kData, {"/f: cannot write: File too large; ", "raise the limit"},
                 [&] { file.write(std::string(600, 'b')); });
  }
  EXPECT_EQ(names_in(dir.path()), Names{"f"});
  expect_error(ErrorKind::kUse, {"/f: commit() after commit() or after a failure"}, [&] { file.commit(); });
  EXPECT_EQ(read_text_file(dir / "f"), "old");
}

TEST(Files, FullDisk) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "/dev/full is not here";
  expect_error(ErrorKind::kData, {"/dev/full: cannot write: No space left on device; free some disk space"},
               [] { append_to_file("/dev/full", "x"); });
  expect_error(ErrorKind::kData, {"/dev/full: cannot replace a pipe or a device; "},
               [] { write_file_atomic("/dev/full", "x"); });
}

TEST(Files, DirectoriesAreRefused) {
  const TemporaryDirectory dir;
  make_directories(dir / "d");
  expect_error(ErrorKind::kData, {"/d: this is a directory; give a file"}, [&] { MappedFile(dir / "d"); });
  expect_error(ErrorKind::kData, {"/d: this is a directory; give a file"},
               [&] { read_text_file(dir / "d"); });
  expect_error(ErrorKind::kData, {"/d: cannot write a file here: this is a directory"},
               [&] { write_file_atomic(dir / "d", "x"); });
  expect_error(ErrorKind::kData, {"/d: cannot open for appending: Is a directory; "},
               [&] { append_to_file(dir / "d", "x"); });
  expect_error(ErrorKind::kData, {"/d/: a file name is missing"},
               [&] { write_file_atomic(dir / "d/", "x"); });
  EXPECT_EQ(names_in(dir.path()), Names{"d"});
}

TEST(Files, MissingFilesAndFolders) {
  const TemporaryDirectory dir;
  expect_error(ErrorKind::kData, {"/f: cannot open: No such file or directory; check that the path"},
               [&] { MappedFile(dir / "f"); });
  expect_error(ErrorKind::kData, {"/f: cannot open: No such file"}, [&] { read_text_file(dir / "f"); });
  expect_error(ErrorKind::kData, {"/d/f: cannot write: No such file or directory; ", "its folder exists"},
               [&] { write_file_atomic(dir / "d/f", "x"); });
  expect_error(ErrorKind::kData, {"/d: cannot open the directory: "}, [&] { sync_directory(dir / "d"); });
  expect_error(ErrorKind::kData, {"/a: cannot rename: No such file"},
               [&] { rename_durably(dir / "a", dir / "b"); });
}

TEST(Files, PipesAreReadAsStreamsAndNotMapped) {
  const TemporaryDirectory dir;
  ASSERT_EQ(::mkfifo((dir / "p").c_str(), 0600), 0);
  expect_error(ErrorKind::kData, {"/p: this is a pipe or a device; save"}, [&] { MappedFile(dir / "p"); });
  expect_error(ErrorKind::kData, {"/p: cannot replace a pipe"}, [&] { write_file_atomic(dir / "p", "x"); });
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "piped", 5), 5);
  ::close(ends[1]);
  EXPECT_EQ(read_text_file("/dev/fd/" + std::to_string(ends[0])), "piped");
  ::close(ends[0]);
}

TEST(Files, TemporaryThatIsALinkIsNotFollowed) {
  const TemporaryDirectory dir;
  write_file_atomic(dir / "precious", "keep");
  fs::create_symlink(dir / "precious", dir / "f.tril-tmp");
  expect_error(ErrorKind::kData, {"/f.tril-tmp: cannot write: "}, [&] { write_file_atomic(dir / "f", "x"); });
  EXPECT_EQ(read_text_file(dir / "precious"), "keep");
  EXPECT_EQ(names_in(dir.path()), (Names{"f.tril-tmp", "precious"}));
}

// The administrator may write everything, so the test becomes nobody while this lives.
class OrdinaryUser {
 public:
  explicit OrdinaryUser(const fs::path& home) {
    if (::geteuid() != 0) return;
    constexpr uid_t kNobody = 65534;
    EXPECT_EQ(::chown(home.c_str(), kNobody, kNobody), 0);
    changed_ = ::seteuid(kNobody) == 0;
  }
  ~OrdinaryUser() {
    if (changed_) {
      EXPECT_EQ(::seteuid(0), 0);
    }
  }

 private:
  bool changed_ = false;
};

TEST(Files, PermissionDenied) {
  const TemporaryDirectory dir;
  const OrdinaryUser user(dir.path());
  write_file_atomic(dir / "f", "old");
  ASSERT_EQ(::chmod((dir / "f").c_str(), 0400), 0);
  expect_error(ErrorKind::kData, {"/f: cannot replace the file: Permission denied; change the permissions"},
               [&] { write_file_atomic(dir / "f", "x"); });
  expect_error(ErrorKind::kData, {"/f: cannot open for appending: Permission denied; "},
               [&] { append_to_file(dir / "f", "x"); });
  ASSERT_EQ(::chmod((dir / "f").c_str(), 0000), 0);
  expect_error(ErrorKind::kData, {"/f: cannot open: Permission denied; "},
               [&] { read_text_file(dir / "f"); });
  expect_error(ErrorKind::kData, {"/f: cannot open: Permission denied; "}, [&] { MappedFile(dir / "f"); });
  ASSERT_EQ(::chmod(dir.path().c_str(), 0500), 0);
  expect_error(ErrorKind::kData, {"/g: cannot write: Permission denied; "},
               [&] { write_file_atomic(dir / "g", "x"); });
  expect_error(ErrorKind::kData, {"/g: cannot create the directory: Permission denied; "},
               [&] { make_directories(dir / "g"); });
  expect_error(ErrorKind::kData, {": cannot remove: Permission denied; "}, [&] { remove_tree(dir / "f"); });
  ASSERT_EQ(::chmod(dir.path().c_str(), 0700), 0);
  EXPECT_EQ(names_in(dir.path()), Names{"f"});
}

TEST(Files, NamesInMessagesAreMadeHarmless) {
  expect_error(ErrorKind::kData, {"/no\\x0a\\x1b[31mwhere: cannot open"},
               [] { read_text_file("/no\n\x1b[31mwhere"); });
  expect_error(ErrorKind::kData, {"a\\x00b: a path cannot contain a NUL"},
               [] { read_text_file(Path(std::string("a\0b", 3))); });
}

TEST(Files, Append) {
  const TemporaryDirectory dir;
  append_to_file(dir / "log", "one\n");
  append_to_file(dir / "log", "two\n");
  EXPECT_EQ(read_text_file(dir / "log"), "one\ntwo\n");
}

TEST(Files, MakeDirectories) {
  const TemporaryDirectory dir;
  make_directories(dir / "a/b//c/");
  make_directories(dir / "a/b/c");
  make_directories("");
  EXPECT_TRUE(fs::is_directory(dir / "a/b/c"));
  write_file_atomic(dir / "f", "x");
  expect_error(ErrorKind::kData, {"/f: cannot create the directory: File exists; "},
               [&] { make_directories(dir / "f"); });
  expect_error(ErrorKind::kData, {"/f", "cannot create the directory: "},
               [&] { make_directories(dir / "f/g"); });
}

TEST(Files, RenameDurably) {
  const TemporaryDirectory dir;
  make_directories(dir / "from");
  make_directories(dir / "there");
  write_file_atomic(dir / "from/f", "x");
  expect_error(ErrorKind::kData, {"/there: cannot rename to this: File exists; "},
               [&] { rename_durably(dir / "from", dir / "there"); });
  rename_durably(dir / "from", dir / "there/to");
  EXPECT_EQ(read_text_file(dir / "there/to/f"), "x");
  EXPECT_EQ(names_in(dir.path()), Names{"there"});
  expect_error(ErrorKind::kData, {"/no/to: cannot rename to this: No such file"},
               [&] { rename_durably(dir / "there", dir / "no/to"); });
}

TEST(Files, ReplaceDurably) {
  const TemporaryDirectory dir;
  write_file_atomic(dir / "new", "x");
  write_file_atomic(dir / "there", "old");
  make_directories(dir / "folder/inner");
  replace_durably(dir / "new", dir / "there");
  EXPECT_EQ(read_text_file(dir / "there"), "x");
  replace_durably(dir / "there", dir / "fresh");
  EXPECT_EQ(names_in(dir.path()), (Names{"folder", "fresh"}));
  expect_error(ErrorKind::kData, {"/fresh: cannot rename to this: Not a directory"},
               [&] { replace_durably(dir / "folder", dir / "fresh"); });
  expect_error(ErrorKind::kData, {"/gone: cannot rename: No such file"},
               [&] { replace_durably(dir / "gone", dir / "fresh"); });
  EXPECT_EQ(read_text_file(dir / "fresh"), "x");
}

TEST(Files, RemoveTree) {
  const TemporaryDirectory dir;
  make_directories(dir / "a/b");
  write_file_atomic(dir / "a/b/f", "x");
  write_file_atomic(dir / "keep", "x");
  fs::create_symlink(dir / "keep", dir / "a/link");
  remove_tree(dir / "a");
  remove_tree(dir / "absent");
  EXPECT_EQ(names_in(dir.path()), Names{"keep"});
}

}  // namespace
}  // namespace tril
