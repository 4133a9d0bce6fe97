// What the benchmarks of the command share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cli/weights_option.h"
#include "tril/base/parallel.h"
#include "tril/containers/json.h"
#include "tril/tensor/tensor.h"

namespace tril::cli {

struct BenchOptions {
  std::string preset;
  std::string arch;                // of step, instead of the preset's
  std::vector<std::string> files;  // of tokenizer; of generate the model
  std::string tokenizer;           // of tokenizer: its file; empty: one is trained on the files
  int64_t vocabulary = 8000;       // of that one
  WeightsOption weights;           // of generate
  double seconds = 2;              // for each measurement
  bool json = false;
};

double now();  // seconds of a clock that only goes forward
double median(std::vector<double> values);

// Median seconds of a call, after one call that is not counted; at least three calls, about `seconds` in all.
double median_seconds(double seconds, const std::function<void()>& call);

// `count` normal numbers; the same for the same name.
Tensor random_tensor(const char* name, int64_t count);

// The machine's peak of fused multiply-adds, the best of all measurements so far in this run.
class Peak {
 public:
  explicit Peak(Executor& executor) : executor_(executor) { measure(); }
  double measure();

 private:
  Executor& executor_;
  double best_ = 0;
};

// One measurement: a JSON line, or a row of a table whose head is printed with the first one.
class BenchTable {
 public:
  explicit BenchTable(bool json, size_t text_width = 14) : json_(json), text_width_(text_width) {}
  void row(const Json& values);

 private:
  bool json_;
  size_t text_width_;
  bool head_printed_ = false;
};

void bench_matmul(const BenchOptions& options, Executor& executor);
void bench_attention(const BenchOptions& options, Executor& executor);
// One new token at the end of a key/value cache: how fast the cache is read.
void bench_decode(const BenchOptions& options, Executor& executor);
void bench_step(const BenchOptions& options, Executor& executor);
void bench_tokenizer(const BenchOptions& options, Executor& executor);
void bench_generate(const BenchOptions& options, Executor& executor);

}  // namespace tril::cli
