#include "cli/train_loop.h"

#include <chrono>
#include <cstdio>

#include "cli/folder_lock.h"
#include "cli/format.h"
#include "cli/log_writer.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/run_folder.h"
#include "cli/signals.h"
#include "cli/train_report.h"
#include "tril/containers/json.h"
#include "tril/generate/generate.h"
#include "tril/text/utf8.h"

namespace tril::cli {
namespace {

constexpr int64_t kSampleTokens = 60;

using Clock = std::chrono::steady_clock;

// One run from its first step to its last; every output goes through here.
class Loop {
 public:
  Loop(const TrainArguments& arguments, TrainRun& run, Executor& executor)
      : arguments_(arguments),
        run_(run),
        o_(run.options),
        executor_(executor),
        lock_(run.out),
        trainer_(run.config, run.options, run.corpus, executor),
        progress_(run.options.steps, step_tokens(),
                  run.config.training_flops(o_.batch, o_.context) * static_cast<double>(o_.accumulate),
                  run.machine.fma_peak_gflops) {
    // What prepare_run() found, it found before the lock.
    check_use(find_checkpoint(run.out) == run.checkpoint,
              "{}: another tril has trained in this folder meanwhile; give the command again",
              run.out.string());
    if (run.checkpoint) trainer_.resume(*run.checkpoint);
    if (run.start_model) trainer_.start_from(*run.start_model->parameters);
    run.start_model.reset();
    log_.emplace(run.out / "log.jsonl", trainer_.steps_done(), o_.tensorboard);
  }

  int run() {
    StepReport report;
    while (!all_done() && !stopping()) {
      report = trainer_.step();
      if (due(o_.eval_every, report.step) && run_.corpus.validation_size() > 0)
        report.validation = trainer_.evaluate();
      write_log(report);
      if (!arguments_.json) progress_.step(report);
      show_warnings();
      if (all_done() || stopping()) break;
      if (due(o_.sample_every, report.step) && !arguments_.json) show_sample();
      if (save_due(report.step) || trainer_.best_is_unsaved()) save_on_the_way();
    }
    progress_.finish();
    // Nothing was learned yet, so nothing should stand in the way of other options.
    if (trainer_.steps_done() == 0) return stopped_early();
    save();
    if (all_done()) {
      take_final_model();
      finished(report);
    } else {
      stopped();
    }
    return 0;
  }

 private:
  int64_t step_tokens() const { return o_.accumulate * o_.batch * o_.context; }
  bool stopping() const { return stop_requested() || progress_.output_gone() || output_gone_; }
  bool all_done() const { return trainer_.steps_done() >= o_.steps || out_of_patience(o_, trainer_.watch()); }
  bool save_due(int64_t step) const {
    const std::chrono::duration<double, std::ratio<60>> minutes = Clock::now() - saved_at_;
    return due(o_.save_every, step) || (o_.save_minutes > 0 && minutes.count() >= o_.save_minutes);
  }
  bool due(int64_t every, int64_t step) const { return (every > 0 && step % every == 0) || step == o_.steps; }

  void write_log(const StepReport& report) {
    last_line_ = log_->add(report, step_tokens());
    if (arguments_.json) print_event("step", last_line_);
    if (log_->due() || report.validation) flush_log();
  }

  void flush_log() {
    try {
      log_->flush();
    } catch (const Error& error) {
      if (!log_failed_) note("the log waits", error.what());
      log_failed_ = true;
    }
  }

  void save(bool with_model = true) {
    flush_log();
    if (saved_step_ < 0) write_run_description(run_);
    trainer_.save(run_.out, run_.identity);  // refuses weights that are not finite
    if (with_model) {
      const AveragedWeights averaged = trainer_.averaged_weights();
      write_model(run_, trainer_.parameters());
    }
    saved_step_ = trainer_.steps_done();
  }

  // In the trainer's own memory: it has done its work.
  void take_final_model() {
    try {
      const Path last = checkpoint_folder(run_.out, trainer_.steps_done()), save = final_save(run_, last);
      if (save == last) return;
      load_checkpoint_model(save, trainer_.parameters());
      write_model(run_, trainer_.parameters());
      final_ = read_checkpoint_state(save);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      note("the finished model is the last save", error.what());
    }
  }

  // A full disk must not end a run that has hours behind it.
  void save_on_the_way() {
    // A new best between the saves that are due leaves the model as it is: half the waiting for the disk.
    const bool is_due = save_due(trainer_.steps_done());
    if (is_due) saved_at_ = Clock::now();
    try {
      save(is_due);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kData) throw;
      note(fmt::format(
               "could not save step {} ({}), training goes on", trainer_.steps_done(),
               saved_step_ < 0 ? "nothing is saved yet" : fmt::format("step {} stays saved", saved_step_)),
           error.what());
    }
  }

  void note(const std::string& what, const std::string& why) {
    if (arguments_.json)
      print_event("warning", {{"message", what + ": " + why}});
    else
      progress_.note(one_line("warning: " + what + ": " + why));
  }

  void show_warnings() {
    for (const Warning& warning : trainer_.take_warnings()) {
      if (arguments_.json)
        print_event("warning",
                    {{"kind", name_of(warning.kind)}, {"step", warning.step}, {"message", warning.message}});
      else
        progress_.note(one_line(fmt::format("warning: step {}: {}", warning.step, warning.message)));
    }
  }

  void show_sample() {
    std::vector<int32_t> prompt = prompt_tokens(*run_.tokenizer, "");
    Utf8Stream stream;
    std::string text;
    const SamplerOptions options{.seed = static_cast<uint64_t>(trainer_.steps_done())};
    const AveragedWeights averaged = trainer_.averaged_weights();
    try {
      generate(trainer_.model(), executor_, prompt, kSampleTokens, options, run_.tokenizer->end_of_text(),
               [&](int32_t id) {
                 text += stream.push(run_.tokenizer->token_bytes(id));
                 return !stop_requested();
               });
    } catch (const Error& error) {
      // No memory for its cache, or logits that are not finite: the steps decide what becomes of that.
      note("no sample, training goes on", error.what());
      return;
    }
    progress_.note("  sample | " + one_line(text + stream.finish()));
  }

  int stopped_early() {
    if (arguments_.json)
      print_event("stopped", {{"step", 0}});
    else
      fmt::print("stopped before the first step; nothing is saved\n");
    return 0;
  }

  void stopped() {
    const std::string out = one_line(run_.out.string());
    if (progress_.output_gone() || output_gone_)
      fail(ErrorKind::kData,
           "standard output cannot be written any more: stopped after step {} of {}, saved in {}",
           trainer_.steps_done(), o_.steps, out);
    if (arguments_.json) return print_event("stopped", {{"step", trainer_.steps_done()}, {"out", out}});
    fmt::print("stopped after step {} of {}; saved in {}. The same command again goes on.\n",
               trainer_.steps_done(), o_.steps, out);
  }

  void finished(const StepReport& report) {
    const std::string out = one_line(run_.out.string());
    const WatchState& watch = trainer_.watch();
    const bool early = report.step < o_.steps;
    if (arguments_.json) {
      last_line_["out"] = out;
      last_line_["stopped_early"] = early;
      if (final_) {
        last_line_["model_step"] = final_->step;
        last_line_["model_validation_loss_nats"] = final_->best_save_loss;
      }
      return print_event("finished", last_line_);
    }
    if (early)
      fmt::print("\nstopped early: no validation since step {} was below its {:.4f} nats\n",
                 watch.best_validation_step, watch.best_validation_loss);
    std::string validation;
    if (report.validation)
      validation = fmt::format(", validation loss {:.4f} nats, {:.3f} bits per byte",
                               report.validation->loss_nats, report.validation->bits_per_byte);
    const std::string which = final_ ? fmt::format(" of step {}, validation loss {:.4f} nats,", final_->step,
                                                   final_->best_save_loss)
                                     : "";
    fmt::print("\ntrained {} steps in {}: loss {:.4f} nats{}\nthe model{} is in {}; let it {}:\n  {}\n",
               report.step, format_duration(log_->seconds()), report.loss, validation, which, out,
               run_.corpus.conversations ? "answer" : "write", generate_line(arguments_, run_));
  }

  void print_event(const char* event, const Json& values) {
    Json line = {{"event", event}};
    line.update(values);
    const std::string text = to_text(line);
    if (std::puts(text.c_str()) < 0 || std::fflush(stdout) != 0) output_gone_ = true;
  }

  const TrainArguments& arguments_;
  TrainRun& run_;
  const TrainOptions& o_;
  Executor& executor_;
  FolderLock lock_;
  Trainer trainer_;
  Progress progress_;
  std::optional<LogWriter> log_;
  bool log_failed_ = false, output_gone_ = false;
  int64_t saved_step_ = -1;
  std::optional<CheckpointState> final_;  // of the best save, where that is the finished model
  Clock::time_point saved_at_ = Clock::now();
  Json last_line_;
};

}  // namespace

int run_training(const TrainArguments& arguments, TrainRun& run, Executor& executor) {
  return Loop(arguments, run, executor).run();
}

}  // namespace tril::cli
