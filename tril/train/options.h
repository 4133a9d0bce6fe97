// Everything a training run is told. One name for one thing: the command line, the config file and these
// fields spell it the same way (--learning-rate, "learning-rate", learning_rate).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tril/nn/transformer.h"

namespace tril {

struct TrainOptions {
  // sizes; 0 means: choose for the data and the machine
  std::string arch = "llama";
  int64_t layers = 0, heads = 0, kv_heads = 0, channels = 0, head_size = 0, mlp_hidden = 0, context = 0;
  float dropout = 0;
  // variants of the architecture; "", and 0 where 0 is not a value: as it has it. Biases and tied_head are
  // "true" or "false"
  std::string activation, norm, positions;
  std::string qkv_bias, projection_bias, mlp_bias, norm_bias, lm_head_bias, tied_head;
  bool parallel_residual = false, qk_norm = false, sinks = false;
  float norm_epsilon = 0, scale = 0, softcap = 0, logit_softcap = 0;
  int64_t window = 0;
  float rope_base = 0, rope_factor = 0;
  int64_t rope_size = 0, rope_original_context = 0;
  std::string rope_scaling;
  bool rope_interleaved = false;

  std::string tokenizer;  // "", "char", "byte", "bpe" or a tokenizer.json
  int64_t vocab = 0;      // of a byte-pair tokenizer that is trained

  int64_t steps = 0;
  int64_t batch = 0, accumulate = 1;
  std::string checkpointing;  // of activations: "none", "selective" or "block"; "": chosen
  float learning_rate = 0, min_learning_rate = -1;  // 0, < 0: chosen
  int64_t warmup = -1;                              // < 0: chosen
  float z_loss = 0;
  float weight_decay = 0.1f, beta1 = 0.9f, beta2 = 0.99f, epsilon = 1e-8f, clip = 1.0f;  // clip 0: none
  std::string schedule = "cosine";  // or "linear", "constant", "wsd"
  float decay_fraction = 0.2f;      // of the steps, at the end, in which wsd lowers the rate
  std::string optimizer = "adamw";  // or "muon"
  std::string moments = "f32";      // how the optimizer's moments are stored; or "bf16"
  float ema = 0;                    // decay of the average of the weights, 0: none
  float label_smoothing = 0;
  bool decay_all = false;           // weight decay on every parameter, as plain PyTorch AdamW does it
  std::string sampling = "random";  // of windows of text; or "epochs": each once before any comes again
  std::string mix;                  // weights of the sources, such as "0.7,0.3"; "": all their text is one
  std::string chat_template;        // of conversations: "" as the model's own, or chosen
  bool document_mask = false;       // tokens see their own document alone, and its positions start at 0
  double val_fraction = 0.1;
  int64_t eval_every = 0, eval_batches = 0, save_every = 0;  // 0: chosen
  int64_t sample_every = -1;                                 // -1: chosen, 0: never
  float save_minutes = 10;           // of the clock, besides save_every; 0: by steps alone
  int64_t keep = 2;                  // newest saves; the best is kept besides
  bool tensorboard = false;          // event files for TensorBoard, in the run's folder tensorboard
  std::string final_model = "last";  // or "best": the save that becomes the finished model
  int64_t patience = 0;              // validations in a row without a new best that end the run; 0: none do
  int64_t max_skipped = 0;           // steps in a row left out because their numbers are not finite
  std::string from;                  // the folder of a model whose weights the run starts from, or ""
  uint64_t seed = 1;
};

// Throws kUse naming the option, its value and what is possible. Zeros that mean "choose" pass.
void check_options(const TrainOptions& options);

// The rate of step 0, 1, ...: warm-up, learning_rate * (step + 1) / warmup, and then
//   cosine    half a cosine from learning_rate to min_learning_rate, which the last step has
//   linear    a straight line between the same
//   constant  learning_rate
//   wsd       learning_rate, and over the last decay_fraction of the steps (none of them of the warm-up) a
//             straight line down to min_learning_rate. Hu et al. "MiniCPM" (2024), section 4; the line:
//             Hagele et al. (2024). Before the decay the rate does not depend on the number of steps: a run
//             stopped there and made longer is the longer run, bit for bit.
// A rate depends on the options and the step alone: a run that goes on with more steps follows the schedule
// of the longer run from there.
float learning_rate_at(const TrainOptions& options, int64_t step);

// The model these options describe, with zeros where sizes are still to be chosen.
TransformerConfig model_config(const TrainOptions& options, int64_t vocabulary);

// The reverse: the options of shape and block become those of `config`. What no option expresses (YaRN's
// finer constants) is left out; dropout and z-loss stay.
void set_model_options(const TransformerConfig& config, TrainOptions& options);

// One flat JSON object, keys as on the command line without dashes in front.
std::string options_to_json(const TrainOptions& options);
// Sets the fields that the object names; the others stay. Throws kUse naming `source` and the key for unknown
// keys and values of the wrong type.
void options_from_json(std::string_view json, std::string_view source, TrainOptions& options);

// As the trainer takes it: "" is none.
Checkpointing checkpointing_of(const TrainOptions& options);

struct OptionDifference {
  std::string name;         // "layers"
  std::string there, here;  // the values as JSON
  bool exact_resume;        // a run that changes it is another run; false: how often to look, save, keep
};
std::vector<OptionDifference> compare_options(const TrainOptions& there, const TrainOptions& here);

}  // namespace tril
