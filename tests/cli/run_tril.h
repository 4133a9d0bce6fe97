// Runs the real command in a child process: arguments in, exit code and both outputs out. A child that takes
// longer than its time is killed and fails the test.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/temporary_directory.h"
#include "tril/containers/json.h"

namespace tril::cli_testing {

struct Result {
  int code = -1;  // 1000 + signal if a signal ended the child
  std::string out, err;
  int64_t peak_bytes = 0;  // of its resident memory
  std::string command;     // its words, for messages
};

struct RunOptions {
  std::filesystem::path directory = ".";
  std::string input = {};      // of standard input
  std::string signal_at = {};  // when this text was written to standard output ...
  int signal = 0;              // ... this signal is sent ...
  int64_t delay_us = 0;        // ... so much later
  int signals = 1;             // so often, a little apart
  bool hang_up = false;        // or standard output is closed then
  rlim_t file_limit = 0;       // bytes a file may get, 0: any number
  int seconds = 60;
};

namespace internal {

// Appends what is there to read; closes and forgets the pipe at its end.
inline void drain(pollfd& pipe, std::string& text) {
  if (pipe.fd < 0 || (pipe.revents & (POLLIN | POLLHUP)) == 0) return;
  char buffer[1 << 16];
  const ssize_t got = ::read(pipe.fd, buffer, sizeof buffer);
  if (got > 0) {
    text.append(buffer, static_cast<size_t>(got));
  } else {
    ::close(pipe.fd);
    pipe.fd = -1;
  }
}

[[noreturn]] inline void become_tril(const std::vector<std::string>& arguments, const RunOptions& options,
                                     int in, int out, int err) {
  ::dup2(in, 0);
  ::dup2(out, 1);
  ::dup2(err, 2);
  if (::chdir(options.directory.c_str()) != 0) ::_exit(126);
  if (options.file_limit > 0) {
    const rlimit limit = {options.file_limit, options.file_limit};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  std::vector<char*> argv = {const_cast<char*>("tril")};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  ::execv(std::getenv("TRIL_BINARY"), argv.data());
  ::_exit(127);
}

}  // namespace internal

inline Result run_tril(const std::vector<std::string>& arguments, const RunOptions& options = {}) {
  Result result;
  for (const std::string& argument : arguments) result.command += " " + argument;
  if (std::getenv("TRIL_BINARY") == nullptr) {
    ADD_FAILURE() << "the environment variable TRIL_BINARY does not name the command";
    return result;
  }
  const std::filesystem::path input =
      std::filesystem::temp_directory_path() / ("tril-in-" + std::to_string(::getpid()));
  std::ofstream(input, std::ios::binary) << options.input;
  const int in = ::open(input.c_str(), O_RDONLY | O_CLOEXEC);
  std::filesystem::remove(input);
  int out[2], err[2];
  if (::pipe2(out, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) {
    ADD_FAILURE() << "no pipes";
    return result;
  }
  const pid_t child = ::fork();
  if (child == 0) internal::become_tril(arguments, options, in, out[1], err[1]);
  for (const int descriptor : {in, out[1], err[1]}) ::close(descriptor);

  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(options.seconds);
  pollfd pipes[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  bool waiting = options.signal != 0 || options.hang_up;
  while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
    ::poll(pipes, 2, 100);
    internal::drain(pipes[0], result.out);
    internal::drain(pipes[1], result.err);
    if (waiting && result.out.find(options.signal_at) != std::string::npos) {
      std::this_thread::sleep_for(std::chrono::microseconds(options.delay_us));
      if (options.hang_up) {
        ::close(pipes[0].fd);
        pipes[0].fd = -1;
      }
      for (int i = 0; options.signal != 0 && i < options.signals; ++i) {
        if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(30));
        ::kill(child, options.signal);
      }
      waiting = false;
    }
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << "tril took longer than " << options.seconds << " s";
      ::kill(child, SIGKILL);
      break;
    }
  }
  for (const pollfd& pipe : pipes)
    if (pipe.fd >= 0) ::close(pipe.fd);
  int status = 0;
  rusage usage = {};
  ::wait4(child, &status, 0, &usage);
  result.peak_bytes = int64_t{usage.ru_maxrss} * 1024;
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  return result;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << "cannot read " << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

// Some sentences, different in each line; enough to train on for a moment.
inline std::string sample_text(int lines = 200) {
  const char* who[] = {"The cat", "A dog", "My aunt", "The small bird", "Nobody"};
  const char* what[] = {"sees", "likes", "follows", "paints"};
  const char* whom[] = {"the moon", "a red ball", "the old house", "every song", "the sea", "them", "rain"};
  std::string text;
  for (int i = 0; i < lines; ++i)
    text += std::string(who[i % 5]) + " " + what[i / 3 % 4] + " " + whom[i * i % 7] + ".\n";
  return text;
}

// A small, fast run on text.txt; more options may follow.
inline std::vector<std::string> train_arguments(const std::vector<std::string>& more = {}) {
  std::vector<std::string> arguments = {"train",      "text.txt", "--layers",  "1",  "--heads",     "2",
                                        "--channels", "16",       "--context", "16", "--batch",     "4",
                                        "--steps",    "40",       "--threads", "1",  "--tokenizer", "char"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

inline bool one_line(const std::string& text) {
  return !text.empty() && text.find('\n') == text.size() - 1 && text.starts_with("tril: ");
}

// The command failed with this code, and did nothing but write one line to standard error that holds all
// these parts.
inline void expect_error(const Result& result, int code, const std::vector<std::string>& parts) {
  SCOPED_TRACE("tril" + result.command);
  EXPECT_EQ(result.code, code) << result.err;
  EXPECT_EQ(result.out, "");
  EXPECT_TRUE(one_line(result.err)) << result.err;
  for (const std::string& part : parts)
    EXPECT_NE(result.err.find(part), std::string::npos) << "no '" << part << "' in\n" << result.err;
}

inline std::vector<Json> json_lines(const std::string& text) {
  std::vector<Json> out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out.push_back(parse_json(line));
  return out;
}

// Control characters other than line breaks; bytes of UTF-8 are none.
inline bool has_control_characters(const std::string& text) {
  for (const char c : text)
    if ((static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == 0x7f) return true;
  return false;
}

}  // namespace tril::cli_testing
