// Everything a training run is told. One name for one thing: the command line, the config file and these
// fields spell it the same way (--learning-rate, "learning-rate", learning_rate).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tril/nn/transformer.h"

namespace tril {

struct TrainOptions {
  // sizes; 0 means: choose for the data and the machine
  std::string arch = "gpt";
  int64_t layers = 0, heads = 0, kv_heads = 0, channels = 0, head_size = 0, mlp_hidden = 0, context = 0;
  float dropout = 0;
  std::string activation;  // "" : the architecture's

  std::string tokenizer;  // "", "char", "byte", "bpe" or a tokenizer.json
  int64_t vocab = 0;

  int64_t steps = 0;
  int64_t batch = 0, accumulate = 1;
  float learning_rate = 0, min_learning_rate = -1;  // 0, < 0: chosen
  int64_t warmup = -1;                              // < 0: chosen
  float weight_decay = 0.1f, beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-8f, clip = 1.0f;
  std::string schedule = "cosine";  // or "constant"
  bool decay_all = false;           // weight decay on every parameter, as plain PyTorch AdamW does it
  double val_fraction = 0.1;
  int64_t eval_every = 0, eval_batches = 0, save_every = 0, sample_every = 0;  // 0: chosen
  int64_t keep = 2;
  uint64_t seed = 1;
};

// The cosine or constant schedule with linear warm-up: the rate of step 0, 1, ...
//   warm-up: learning_rate * (step + 1) / warmup;  then cosine from learning_rate to min_learning_rate at the
//   last step.
float learning_rate_at(const TrainOptions& options, int64_t step);

}  // namespace tril
