#include "tril/train/options.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "tril/containers/json.h"
#include "tril/data/sampler.h"
#include "tril/nn/transformer_fields.h"

namespace tril {
namespace {

// Every option once: its name on the command line, and the field.
template <class Options, class Visit>
void visit_options(Options& o, Visit&& visit) {
  visit("arch", o.arch);
  visit("layers", o.layers);
  visit("heads", o.heads);
  visit("kv-heads", o.kv_heads);
  visit("channels", o.channels);
  visit("head-size", o.head_size);
  visit("mlp-hidden", o.mlp_hidden);
  visit("context", o.context);
  visit("dropout", o.dropout);
  visit("activation", o.activation);
  visit("norm", o.norm);
  visit("norm-epsilon", o.norm_epsilon);
  visit("positions", o.positions);
  visit("rope-base", o.rope_base);
  visit("rope-size", o.rope_size);
  visit("rope-interleaved", o.rope_interleaved);
  visit("rope-scaling", o.rope_scaling);
  visit("rope-factor", o.rope_factor);
  visit("rope-original-context", o.rope_original_context);
  visit("window", o.window);
  visit("softcap", o.softcap);
  visit("qk-norm", o.qk_norm);
  visit("sinks", o.sinks);
  visit("scale", o.scale);
  visit("parallel-residual", o.parallel_residual);
  visit("logit-softcap", o.logit_softcap);
  visit("qkv-bias", o.qkv_bias);
  visit("projection-bias", o.projection_bias);
  visit("mlp-bias", o.mlp_bias);
  visit("norm-bias", o.norm_bias);
  visit("lm-head-bias", o.lm_head_bias);
  visit("tied-head", o.tied_head);
  visit("tokenizer", o.tokenizer);
  visit("vocab", o.vocab);
  visit("steps", o.steps);
  visit("batch", o.batch);
  visit("accumulate", o.accumulate);
  visit("checkpointing", o.checkpointing);
  visit("learning-rate", o.learning_rate);
  visit("min-learning-rate", o.min_learning_rate);
  visit("warmup", o.warmup);
  visit("weight-decay", o.weight_decay);
  visit("beta1", o.beta1);
  visit("beta2", o.beta2);
  visit("epsilon", o.epsilon);
  visit("clip", o.clip);
  visit("schedule", o.schedule);
  visit("decay-fraction", o.decay_fraction);
  visit("decay-all", o.decay_all);
  visit("optimizer", o.optimizer);
  visit("moments", o.moments);
  visit("ema", o.ema);
  visit("label-smoothing", o.label_smoothing);
  visit("z-loss", o.z_loss);
  visit("sampling", o.sampling);
  visit("mix", o.mix);
  visit("template", o.chat_template);
  visit("document-mask", o.document_mask);
  visit("val-fraction", o.val_fraction);
  visit("eval-every", o.eval_every);
  visit("eval-batches", o.eval_batches);
  visit("save-every", o.save_every);
  visit("sample-every", o.sample_every);
  visit("save-minutes", o.save_minutes);
  visit("keep", o.keep);
  visit("tensorboard", o.tensorboard);
  visit("final-model", o.final_model);
  visit("patience", o.patience);
  visit("max-skipped", o.max_skipped);
  visit("from", o.from);
  visit("seed", o.seed);
}

constexpr std::string_view kMayChange[] = {"eval-every",   "eval-batches", "save-every",   "sample-every",
                                           "save-minutes", "keep",         "final-model",  "patience",
                                           "max-skipped",  "tensorboard",  "checkpointing"};

Json to_json(float value) { return shortest_number(value); }
template <class T>
Json to_json(const T& value) {
  return value;
}

void from_json(const Json& json, std::string& out) { out = json.get<std::string>(); }
void from_json(const Json& json, bool& out) { out = json.get<bool>(); }
template <class T>
requires std::is_floating_point_v<T>
void from_json(const Json& json, T& out) {
  if (!json.is_number()) throw std::invalid_argument("a number is expected");
  out = static_cast<T>(json.get<double>());
}
template <class T>
requires std::is_integral_v<T>
void from_json(const Json& json, T& out) {
  if (!json.is_number_integer()) throw std::invalid_argument("a whole number is expected");
  if (std::is_unsigned_v<T> && json.is_number_integer() && !json.is_number_unsigned())
    throw std::invalid_argument("a number from 0 is expected");
  if (std::is_signed_v<T> && json.is_number_unsigned() && json.get<uint64_t>() > uint64_t{INT64_MAX})
    throw std::invalid_argument("the number is too large");
  out = json.get<T>();
}

void check_range(std::string_view name, double value, double low, double high, std::string_view range) {
  check_use(value >= low && value <= high, "--{} is {}; give {}", name, value, range);  // false for NaN
}

void check_name(std::string_view name, std::string_view value,
                std::initializer_list<std::string_view> known) {
  check_use(std::find(known.begin(), known.end(), value) != known.end(), "--{} is '{}'; give one of {}", name,
            value, fmt::join(known, ", "));
}

// Options that are "true", "false" or "", and the fields of the model that they set.
struct Switch {
  std::string_view name;
  std::string TrainOptions::*option;
  bool TransformerConfig::*field;
};
constexpr Switch kSwitches[] = {
    {"qkv-bias", &TrainOptions::qkv_bias, &TransformerConfig::qkv_bias},
    {"projection-bias", &TrainOptions::projection_bias, &TransformerConfig::projection_bias},
    {"mlp-bias", &TrainOptions::mlp_bias, &TransformerConfig::mlp_bias},
    {"norm-bias", &TrainOptions::norm_bias, &TransformerConfig::norm_bias},
    {"lm-head-bias", &TrainOptions::lm_head_bias, &TransformerConfig::lm_head_bias},
    {"tied-head", &TrainOptions::tied_head, &TransformerConfig::tied_head}};

template <class T>
void set_named(const std::string& name, T& field) {
  if (!name.empty()) from_name(name, field);
}
template <class T>
void set_number(T value, T& field) {
  if (value != 0) field = value;
}

// What differs from the architecture that `config` has.
void set_variants(const TrainOptions& o, TransformerConfig& config) {
  for (const Switch& s : kSwitches) {
    const std::string& text = o.*s.option;
    if (!text.empty()) config.*s.field = text == "true";
  }
  set_named(o.activation, config.activation);
  set_named(o.norm, config.norm.kind);
  set_number(o.norm_epsilon, config.norm.epsilon);
  set_number(o.scale, config.scale);
  config.parallel_residual |= o.parallel_residual;
  set_number(o.logit_softcap, config.logit_softcap);
  AttentionVariants& attention = config.attention;
  set_named(o.positions, attention.positions);
  set_number(o.window, attention.window);
  set_number(o.softcap, attention.softcap);
  attention.qk_norm |= o.qk_norm;
  attention.sinks |= o.sinks;
  RopeConfig& rope = attention.rope;
  set_number(o.rope_base, rope.base);
  set_number(o.rope_size, rope.size);
  set_number(o.rope_factor, rope.factor);
  set_number(o.rope_original_context, rope.original_context);
  set_named(o.rope_scaling, rope.scaling);
  rope.interleaved |= o.rope_interleaved;
  // A tied head has no bias: the architecture's goes with the head.
  if (o.lm_head_bias.empty() && config.tied_head) config.lm_head_bias = false;
}

}  // namespace

void check_options(const TrainOptions& o) {
  constexpr double kInfinity = std::numeric_limits<double>::max();
  const std::pair<std::string_view, int64_t> counts[] = {
      {"layers", o.layers},        {"heads", o.heads},           {"kv-heads", o.kv_heads},
      {"channels", o.channels},    {"head-size", o.head_size},   {"mlp-hidden", o.mlp_hidden},
      {"context", o.context},      {"vocab", o.vocab},           {"steps", o.steps},
      {"batch", o.batch},          {"eval-every", o.eval_every}, {"eval-batches", o.eval_batches},
      {"save-every", o.save_every}};
  for (const auto& [name, value] : counts)
    check_use(value >= 0, "--{} is {}; give a positive number, or 0 to have it chosen", name, value);
  check_range("sample-every", static_cast<double>(o.sample_every), -1, kInfinity,
              "a number of steps, 0 for none, or -1 to have it chosen");
  check_range("accumulate", static_cast<double>(o.accumulate), 1, 1 << 20, "1 to 1048576");
  check_range("keep", static_cast<double>(o.keep), 1, kInfinity, "a number from 1");
  check_range("save-minutes", o.save_minutes, 0, 1e6, "minutes of the clock, or 0 to save by steps alone");
  check_name("final-model", o.final_model, {"last", "best"});
  check_range("patience", static_cast<double>(o.patience), 0, kInfinity, "a number of validations, or 0");
  check_range("max-skipped", static_cast<double>(o.max_skipped), 0, kInfinity, "a number of steps, or 0");
  check_use(o.val_fraction > 0 || (o.patience == 0 && o.final_model == "last"),
            "--val-fraction is 0: without validation text no model is known to be the best; leave out "
            "--patience and --final-model, or give a --val-fraction above 0");
  check_use(o.dropout >= 0 && o.dropout < 1, "--dropout is {}; give a number from 0 to below 1", o.dropout);
  check_range("learning-rate", o.learning_rate, 0, 1e3,
              "a positive number such as 0.001, or 0 to have it chosen");
  check_use(std::isfinite(o.min_learning_rate), "--min-learning-rate is {}; give a number",
            o.min_learning_rate);
  check_range("weight-decay", o.weight_decay, 0, kInfinity, "a number from 0");
  check_use(o.beta1 >= 0 && o.beta1 < 1, "--beta1 is {}; give a number from 0 to below 1", o.beta1);
  check_use(o.beta2 >= 0 && o.beta2 < 1, "--beta2 is {}; give a number from 0 to below 1", o.beta2);
  check_use(o.epsilon > 0 && o.epsilon < 1, "--epsilon is {}; give a small positive number", o.epsilon);
  check_range("clip", o.clip, 0, kInfinity, "a positive gradient norm, or 0 for no clipping");
  check_use(o.val_fraction >= 0 && o.val_fraction < 1,
            "--val-fraction is {}; give a number from 0 to below 1", o.val_fraction);
  check_name("schedule", o.schedule, {"cosine", "linear", "constant", "wsd"});
  check_range("decay-fraction", o.decay_fraction, 0, 1, "a part of the steps, from 0 to 1");
  sampling_of(o.sampling);  // throws for unknown names
  if (!o.mix.empty()) parse_mixture(o.mix);
  check_name("optimizer", o.optimizer, {"adamw", "muon"});
  check_name("moments", o.moments, {"f32", "bf16"});
  check_use(o.ema >= 0 && o.ema < 1, "--ema is {}; give a number from 0 to below 1, such as 0.999", o.ema);
  for (const Switch& s : kSwitches) {
    const std::string& text = o.*s.option;
    check_use(text.empty() || text == "true" || text == "false", "--{} is '{}'; give true or false", s.name,
              text);
  }
  checkpointing_of(o);  // throws for unknown names
  const bool rope_given = o.rope_base != 0 || o.rope_factor != 0 || o.rope_size != 0 ||
                          o.rope_original_context != 0 || !o.rope_scaling.empty() || o.rope_interleaved;
  const TransformerConfig config = model_config(o, 1);  // throws for unknown names
  check_use(!rope_given || config.attention.positions == Positions::kRope,
            "options --rope-... are given, but the positions are {}; add --positions rope",
            name_of(config.attention.positions));
  if (rope_given) check_rope(config.attention.rope, 256);  // the size of a head may not be chosen yet
}

Checkpointing checkpointing_of(const TrainOptions& o) {
  Checkpointing out = Checkpointing::kNone;
  set_named(o.checkpointing, out);
  return out;
}

float learning_rate_at(const TrainOptions& o, int64_t step) {
  const double highest = o.learning_rate;
  if (step < o.warmup)
    return static_cast<float>(highest * static_cast<double>(step + 1) / static_cast<double>(o.warmup));
  if (o.schedule == "constant") return o.learning_rate;
  // The step that still has the highest rate; the last one has the lowest.
  int64_t from = std::max<int64_t>(o.warmup, 0);
  if (o.schedule == "wsd") {
    const auto decay = static_cast<int64_t>(std::llround(o.decay_fraction * static_cast<double>(o.steps)));
    if (decay == 0) return o.learning_rate;
    from = std::max(from, o.steps - decay) - 1;
  }
  const double lowest = o.min_learning_rate < 0 ? highest / 10 : o.min_learning_rate;
  const double length = static_cast<double>(std::max<int64_t>(o.steps - 1 - from, 1));
  const double progress = std::clamp(static_cast<double>(step - from) / length, 0.0, 1.0);
  // lr = lowest + (highest - lowest) (1 + cos(pi p)) / 2, or lowest + (highest - lowest) (1 - p)
  const double left =
      o.schedule == "cosine" ? 0.5 * (1 + std::cos(std::numbers::pi * progress)) : 1 - progress;
  return static_cast<float>(lowest + (highest - lowest) * left);
}

TransformerConfig model_config(const TrainOptions& o, int64_t vocabulary) {
  TransformerConfig config;
  config.set_architecture(o.arch);
  config.vocabulary = vocabulary;
  config.context = o.context;
  config.channels = o.channels;
  config.layers = o.layers;
  config.heads = o.heads;
  config.kv_heads = o.kv_heads;
  config.head_size = o.head_size;
  config.mlp_hidden = o.mlp_hidden;
  set_variants(o, config);
  config.dropout = o.dropout;
  config.z_loss = o.z_loss;
  config.label_smoothing = o.label_smoothing;
  return config;
}

std::string options_to_json(const TrainOptions& options) {
  Json out = Json::object();
  visit_options(options, [&](const char* name, const auto& field) { out[name] = to_json(field); });
  return to_text(out, 2);
}

void options_from_json(std::string_view text, std::string_view source, TrainOptions& options) {
  const Json json = parse_json(text);
  check_use(json.is_object(), "{}: not a JSON object; write {{\"layers\": 4, ...}}", source);
  std::vector<std::string> known;
  TrainOptions result = options;
  visit_options(result, [&](const char* name, auto& field) {
    known.emplace_back(name);
    if (!json.contains(name)) return;
    try {
      from_json(json[name], field);
    } catch (const std::exception&) {
      fail(ErrorKind::kUse, "{}: \"{}\" is {}; its type or range is wrong, see tril train --help", source,
           name, to_text(json[name]));
    }
  });
  for (const auto& [key, value] : json.items()) {
    check_use(std::find(known.begin(), known.end(), key) != known.end(),
              "{}: unknown option \"{}\"; use the names of tril train --help without the dashes", source,
              key);
  }
  options = result;
}

std::vector<OptionDifference> compare_options(const TrainOptions& there, const TrainOptions& here) {
  std::vector<Json> theirs;
  visit_options(there, [&](const char*, const auto& field) { theirs.push_back(to_json(field)); });
  std::vector<OptionDifference> differences;
  size_t i = 0;
  visit_options(here, [&](const char* name, const auto& field) {
    const Json& other = theirs[i++];
    const Json own = to_json(field);
    if (own == other) return;
    const bool exact = std::find(std::begin(kMayChange), std::end(kMayChange), name) == std::end(kMayChange);
    differences.push_back({name, to_text(other), to_text(own), exact});
  });
  return differences;
}

}  // namespace tril
