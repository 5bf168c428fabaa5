#include "trireme/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <ostream>

#include <ATen/ATen.h>

#include "trireme/ckpt/checkpoint.h"
#include "trireme/comm/agree.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/durable_file.h"
#include "trireme/core/error.h"
#include "trireme/core/number_text.h"
#include "trireme/memory/account.h"
#include "trireme/model/weights.h"
#include "trireme/train/config_file.h"
#include "trireme/train/estimate.h"
#include "trireme/train/layout_choice.h"
#include "trireme/train/lr_schedule.h"
#include "trireme/train/model_source.h"
#include "trireme/train/progress.h"
#include "trireme/train/recommender.h"
#include "trireme/train/resume_check.h"
#include "trireme/train/run_folder.h"
#include "trireme/train/run_lock.h"
#include "trireme/train/schedule_choice.h"
#include "trireme/train/step_totals.h"
#include "trireme/train/token_sources.h"
#include "trireme/train/training_report.h"
#include "trireme/train/training_state.h"

namespace trireme::train {
namespace {

// A batch may be bad, or a few; that many tell that the weights are.
constexpr int kMostSkipped = 20;

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

Degrees degrees_of(
    const Config& config,
    const model::ModelPlan& plan,
    int ranks,
    const std::optional<Degrees>& given) {
  if (!given)
    return choose_degrees(config, plan, ranks);
  check_degrees(
      config.parallelism, *given, ranks, static_cast<int>(plan.layers.size()));
  return *given;
}

/// Everything of one rank's job; one member function a phase.
class Job {
 public:
  Job(const comm::Group& world, const Config& config, const TrainerOptions& options)
      : world_(world),
        config_(config),
        options_(options),
        folder_(open_run_folder(config)),
        lock_(lock_run(world, folder_.path)),
        sources_(open_sources(config)),
        model_(describe_model(config, vocabulary_of(sources_.tokenizer.get()))),
        degrees_(degrees_of(config, model_.plan, world.size(), options.degrees)),
        mesh_(world, {{"dp", degrees_.dp}, {"pp", degrees_.pp}}),
        loader_(make_loader(sources_.training, config.data.shuffle)) {}

  TrainResult run();

 private:
  bool leads() const { return world_.rank() == 0; }
  int64_t tokens_a_step() const {
    return config_.training.global_batch_size * config_.training.seq_len;
  }
  void say(const std::string& line);
  data::TokenLoader make_loader(const data::TokenFile& file, bool shuffle) const;
  /// Whether a checkpoint is of this run.
  bool is_own(const std::filesystem::path& checkpoint) const;
  void find_checkpoint();
  void lay_out();
  void load();
  void open_output();
  data::TokenBatch next_batch(data::TokenLoader& loader, int64_t step) const;
  StepMetrics step();
  void pass_over(const StepMetrics& metrics);
  void set_later_steps_aside();
  void say_how_the_rate_goes_on();
  std::optional<double> evaluate();
  bool is_due(int64_t interval) const;
  void save();
  void trace(bool last);
  void conclude();

  comm::Group world_;
  Config config_;
  TrainerOptions options_;
  RunFolder folder_;
  /// Rank 0's, from before it looks for checkpoints until all is written.
  std::unique_ptr<RunLock> lock_;
  TokenSources sources_;
  ModelSource model_;
  Degrees degrees_;
  comm::Mesh mesh_;
  data::TokenLoader loader_;
  std::optional<ScheduleChoice> choice_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<MetricsFile> metrics_;
  std::unique_ptr<Progress> progress_;
  /// The checkpoint to go on from; empty: none.
  std::string resume_;
  TrainingState state_;
  pipe::StepReport last_step_;
  int64_t first_step_ = 0;
  /// The step of the last checkpoint that was written or read.
  int64_t saved_step_ = -1;
  /// Steps in a row that have trained nothing.
  int skipped_ = 0;
  std::chrono::steady_clock::time_point began_;
  TrainResult result_;
};

void Job::say(const std::string& line) {
  if (progress_ != nullptr)
    progress_->say(line);
}

data::TokenLoader Job::make_loader(const data::TokenFile& file, bool shuffle) const {
  data::TokenLoaderOptions options = loader_options(
      config_, mesh_.coordinate("dp"), degrees_.dp, model_.plan.vocab_size);
  options.shuffle = shuffle;
  return data::TokenLoader(file, options);
}

void Job::open_output() {
  if (!leads() || options_.progress == nullptr)
    return;
  progress_ = std::make_unique<Progress>(
      *options_.progress,
      ProgressOptions{
          .style = progress_style(config_.metrics.progress, options_.terminal),
          .every = config_.metrics.log_freq,
          .steps = config_.training.steps,
          .width = options_.width});
}

bool Job::is_own(const std::filesystem::path& checkpoint) const {
  std::error_code ignored;
  return std::filesystem::equivalent(
      std::filesystem::absolute(checkpoint / "").parent_path().parent_path(),
      folder_.checkpoints,
      ignored);
}

void Job::find_checkpoint() {
  // One rank looks, so that all go on from the same.
  const auto find = [&]() -> std::string {
    const auto found = find_resume(config_, folder_.checkpoints);
    if (config_.checkpoint.enable && !(found && is_own(*found)) &&
        ckpt::latest_checkpoint(folder_.checkpoints))
      throw InvalidArgument(text(
          "[train] expected a folder without checkpoints for a new run, got ",
          folder_.path.string(),
          "; go on there with --checkpoint.resume auto, or set job.dump_folder to "
          "another"));
    return found ? found->string() : std::string();
  };
  resume_ = comm::share_text(world_, leads() ? find() : std::string());
  if (!resume_.empty())
    check_resume(resume_, model_.plan, config_);
}

void Job::lay_out() {
  const BatchShape batch = choose_batch(config_, degrees_);
  const auto costs = estimate_layers(model_.plan, config_, batch);
  const Layout first = first_layout(config_, degrees_, batch, costs);
  say(text(
      "model: ",
      model_.plan.type,
      ", ",
      with_thousands(model_.plan.count_parameters()),
      " parameters; data: ",
      sources_.training.describe()));
  std::optional<Layout> before;
  if (is_measured(config_) && !resume_.empty())
    before = saved_layout(resume_, degrees_, batch);
  if (before) {
    choice_ = ScheduleChoice{
        .layout = *before, .layers = costs, .why = before->schedule.name};
  } else if (is_measured(config_) && degrees_.pp > 1) {
    choice_ = choose_schedule(mesh_, model_.plan, config_, first, loader_.next());
    loader_.seek(0);
  } else {
    choice_ =
        ScheduleChoice{.layout = first, .layers = costs, .why = first.schedule.name};
  }
  say(text(
      "ranks: ",
      degrees_.ranks(),
      " (",
      degrees_.dp,
      " data parallel x ",
      degrees_.pp,
      " pipeline), ",
      to_text(batch)));
  if (degrees_.pp > 1)  // one rank has nobody to take turns with
    say(text("schedule: ", choice_->why));
  const bool loads = !resume_.empty() || !model_.weights.empty();
  engine_ = std::make_unique<Engine>(
      mesh_,
      model_.plan,
      choice_->layout,
      config_,
      loads ? FirstWeights::Zeros : FirstWeights::OfTheSeed);
}

void Job::load() {
  if (!resume_.empty()) {
    state_ = load_state(resume_, model_.plan, config_, *engine_);
    say(text("going on after step ", state_.step, " of ", resume_));
    if (state_.data_tokens != 0 && state_.data_tokens != sources_.training.size())
      say(text(
          "the data is not what it was: ",
          with_thousands(state_.data_tokens),
          " tokens before, ",
          with_thousands(sources_.training.size()),
          " now; samples are not those that would have come"));
    saved_step_ = state_.step;
    say_how_the_rate_goes_on();
  } else if (!model_.weights.empty()) {
    model::load_weights(
        engine_->layers(), model_.plan, ckpt::WeightFiles(model_.weights));
    engine_->optimizer().refresh_masters();
    say(text("weights: ", model_.weights.string()));
    if (const std::string values = demo_values(config_, model_); !values.empty())
      say(text("trained on with values for a small new model: ", values));
  }
  first_step_ = state_.step;
  state_.data_tokens = sources_.training.size();
  state_.schedule_steps = schedule_steps(config_);
  loader_.seek(state_.step);
  if (leads()) {
    set_later_steps_aside();
    write_durably(folder_.config(), to_toml(config_));
    metrics_ = std::make_unique<MetricsFile>(folder_.metrics(), state_.step);
  }
}

void Job::set_later_steps_aside() {
  const auto steps = ckpt::checkpoint_steps(folder_.checkpoints);
  if (resume_.empty() || !is_own(resume_) || steps.empty() ||
      steps.back() <= state_.step)
    return;
  const auto metrics = folder_.metrics_aside();
  if (std::filesystem::exists(folder_.metrics())) {
    // The file is about to be cut: without a copy its later lines would be lost.
    write_durably(
        metrics, read_file(folder_.metrics(), std::numeric_limits<uint64_t>::max()));
    say(text("going back; the metrics of later steps are kept in ", metrics.string()));
  }
  if (!config_.checkpoint.enable)
    return;
  for (const auto& path : ckpt::set_later_aside(folder_.checkpoints, state_.step))
    say(text("later checkpoint set aside: ", path.string()));
}

void Job::say_how_the_rate_goes_on() {
  const int64_t now = schedule_steps(config_);
  if (state_.schedule_steps == 0 || state_.schedule_steps == now ||
      state_.step >= config_.training.steps)
    return;
  const double before =
      config_.optimizer.lr *
      lr_factor(config_.lr_scheduler, state_.step, state_.schedule_steps);
  const double after = learning_rate(config_, state_.step);
  if (before != after)
    say(text(
        "the learning rate goes on at ",
        after,
        ", not at ",
        before,
        ": its schedule is now of ",
        now,
        " steps, and was of ",
        state_.schedule_steps,
        "; --lr_scheduler.total_steps ",
        state_.schedule_steps,
        " keeps it"));
}

data::TokenBatch Job::next_batch(data::TokenLoader& loader, int64_t step) const {
  // Stages in the middle see no tokens.
  return engine_->reads_data() ? loader.next() : data::TokenBatch{.step = step};
}

StepMetrics Job::step() {
  auto account = memory::MemoryAccount::process();
  account.reset_peak();
  const auto start = std::chrono::steady_clock::now();
  const double rate = learning_rate(config_, state_.step);
  const StepOutcome outcome = engine_->backward(next_batch(loader_, state_.step));
  const bool stop = options_.should_stop && options_.should_stop();
  const StepTotals totals = total(
      world_,
      degrees_,
      {.outcome = outcome,
       .peak_bytes = account.peak(),
       .has_loss = engine_->has_last(),
       .stop = stop});
  if (totals.finite)
    engine_->update(rate);
  else
    engine_->discard();
  ++state_.step;
  state_.tokens += tokens_a_step();
  result_.stopped = totals.stop && state_.step < config_.training.steps;
  return {
      .step = state_.step,
      .loss = totals.loss,
      .grad_norm = outcome.grad_norm,
      .lr = rate,
      .tokens = state_.tokens,
      .tokens_per_s = static_cast<double>(tokens_a_step()) / seconds_since(start),
      .bubble = totals.bubble,
      .peak_bytes = totals.peak_bytes,
      .skipped = !totals.finite};
}

// A step that has trained nothing: skipped, or the end of the job.
void Job::pass_over(const StepMetrics& metrics) {
  const bool skips = config_.training.on_non_finite == "skip";
  // NaN has a sign, which says nothing.
  const std::string what = text(
      "a loss of ",
      std::abs(metrics.loss),
      " and gradients of norm ",
      std::abs(metrics.grad_norm));
  if (skips && ++skipped_ < kMostSkipped) {
    say(text("step ", metrics.step, " skipped: ", what));
    return;
  }
  if (metrics_ != nullptr)
    metrics_->write(metrics);
  if (!skips) {
    // As if it had not begun.
    state_.tokens -= tokens_a_step();
    --state_.step;
  }
  const bool sound = is_finite(world_, *engine_);
  if (sound && state_.step > std::max(first_step_, saved_step_))
    save();
  throw InvalidArgument(text(
      "[train] expected a finite loss and finite gradients in step ",
      metrics.step,
      ", got ",
      what,
      skips ? text(", as in the ", kMostSkipped - 1, " steps before") : std::string(),
      sound ? "; the weights are still finite: go on with --checkpoint.resume auto and "
              "a lower optimizer.lr, or with training.on_non_finite skip"
            : "; the weights are not finite any more: go on from an older checkpoint "
              "with a lower optimizer.lr"));
}

std::optional<double> Job::evaluate() {
  if (!sources_.held_out)
    return std::nullopt;
  data::TokenLoader loader = make_loader(*sources_.held_out, /*shuffle=*/false);
  const int64_t whole =
      std::max<int64_t>(1, loader.windows() / config_.training.global_batch_size);
  const int64_t batches = std::min(config_.validation.steps, whole);
  double sum = 0;
  for (int64_t i = 0; i < batches; ++i)
    sum += engine_->evaluate(next_batch(loader, i));
  return mean_loss(
      world_, degrees_, sum / static_cast<double>(batches), engine_->has_last());
}

bool Job::is_due(int64_t interval) const {
  return interval > 0 && state_.step % interval == 0;
}

void Job::save() {
  if (!config_.checkpoint.enable)
    return;
  result_.checkpoint = save_state(
                           world_,
                           folder_.checkpoints,
                           state_,
                           model_.plan,
                           config_,
                           sources_.tokenizer,
                           *engine_)
                           .string();
  saved_step_ = state_.step;
}

void Job::trace(bool last) {
  last_step_ = engine_->pipeline().report();
  if (degrees_.pp > 1)
    last_step_.predict(costs_of(*choice_, last_step_));
  if (!leads())
    return;
  if (!last)
    write_durably(folder_.trace(state_.step), pipe::to_trace(last_step_));
  else
    write_pictures(folder_, last_step_);
}

TrainResult Job::run() {
  open_output();
  find_checkpoint();
  lay_out();
  load();
  const int64_t steps = config_.training.steps;
  result_.held_out_before = evaluate();
  if (result_.held_out_before)
    say(text("held-out loss before: ", rounded(*result_.held_out_before)));
  began_ = std::chrono::steady_clock::now();
  while (state_.step < steps && !result_.stopped) {
    StepMetrics metrics = step();
    if (metrics.skipped)
      pass_over(metrics);
    else
      skipped_ = 0;
    const bool last = state_.step == steps || result_.stopped;
    // Before an evaluation, which would be the pipeline's last step then.
    if (last || is_due(config_.profiling.profile_freq))
      trace(last);
    if (last || is_due(config_.validation.freq))
      metrics.held_out_loss = evaluate();
    if (metrics_ != nullptr)
      metrics_->write(metrics);
    if (progress_ != nullptr)
      progress_->show(
          metrics,
          seconds_since(began_) / static_cast<double>(state_.step - first_step_) *
              static_cast<double>(steps - state_.step));
    if (options_.on_step)
      options_.on_step(metrics);
    if (last || is_due(config_.checkpoint.interval))
      save();
    if (!metrics.skipped)
      result_.last_loss = metrics.loss;
    if (metrics.held_out_loss)
      result_.held_out_after = metrics.held_out_loss;
  }
  if (state_.step == first_step_)
    say("nothing to do: all steps were done before");
  result_.step = state_.step;
  conclude();
  return result_;
}

void Job::conclude() {
  if (progress_ != nullptr)
    progress_->finish();
  if (state_.step == first_step_)
    return;
  const ReportRequest request{
      .world = world_,
      .config = config_,
      .plan = model_.plan,
      .last_step = last_step_,
      .folder = folder_,
      .tokenizer = sources_.tokenizer.get(),
      .options = options_};
  result_.sample = conclude_run(request, *engine_, result_);
}

}  // namespace

TrainResult train(
    const comm::Group& world, const Config& config, const TrainerOptions& options) {
  check_config(config);
  Config chosen = config;
  chosen.job.dump_folder = comm::share_text(
      world, world.rank() == 0 ? choose_run_folder(config) : std::string());
  try {
    return is_recommender(chosen) ? train_recommender(world, chosen, options)
                                  : Job(world, chosen, options).run();
  } catch (...) {
    // A folder of our own naming that nothing was written to is of no use to anybody.
    std::error_code ignored;
    if (config.job.dump_folder.empty())
      std::filesystem::remove(chosen.job.dump_folder, ignored);
    throw;
  }
}

}  // namespace trireme::train
