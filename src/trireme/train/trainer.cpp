#include "trireme/train/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <ostream>

#include <ATen/ATen.h>

#include "trireme/ckpt/checkpoint.h"
#include "trireme/ckpt/durable_file.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/data/thousands.h"
#include "trireme/memory/account.h"
#include "trireme/model/weights.h"
#include "trireme/train/config_file.h"
#include "trireme/train/estimate.h"
#include "trireme/train/layout_choice.h"
#include "trireme/train/lr_schedule.h"
#include "trireme/train/model_source.h"
#include "trireme/train/progress.h"
#include "trireme/train/run_folder.h"
#include "trireme/train/schedule_choice.h"
#include "trireme/train/share_text.h"
#include "trireme/train/step_totals.h"
#include "trireme/train/token_sources.h"
#include "trireme/train/training_report.h"
#include "trireme/train/training_state.h"

namespace trireme::train {
namespace {

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
        sources_(open_sources(config)),
        model_(describe_model(config, vocabulary_of(sources_.tokenizer.get()))),
        degrees_(degrees_of(config, model_.plan, world.size(), options.degrees)),
        mesh_(world, {{"dp", degrees_.dp}, {"pp", degrees_.pp}}),
        loader_(make_loader(sources_.training, config.data.shuffle)) {}

  TrainResult run();

 private:
  bool leads() const { return world_.rank() == 0; }
  void say(const std::string& line);
  data::TokenLoader make_loader(const data::TokenFile& file, bool shuffle) const;
  void find_checkpoint();
  void lay_out();
  void load();
  void open_output();
  data::TokenBatch next_batch(data::TokenLoader& loader, int64_t step) const;
  StepMetrics step();
  std::optional<double> evaluate();
  bool is_due(int64_t interval) const;
  void save();
  void trace(bool last);
  void conclude();

  comm::Group world_;
  Config config_;
  TrainerOptions options_;
  RunFolder folder_;
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
  std::chrono::steady_clock::time_point began_;
  TrainResult result_;
};

void Job::say(const std::string& line) {
  if (progress_ != nullptr)
    progress_->say(line);
}

data::TokenLoader Job::make_loader(const data::TokenFile& file, bool shuffle) const {
  return data::TokenLoader(
      file,
      {.sequence_length = config_.training.seq_len,
       .global_batch = config_.training.global_batch_size,
       .rank = mesh_.coordinate("dp"),
       .ranks = degrees_.dp,
       .shuffle = shuffle,
       .seed = static_cast<uint64_t>(config_.training.seed),
       .vocab_size = model_.plan.vocab_size,
       .prefetch = static_cast<int>(config_.data.prefetch)});
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

void Job::find_checkpoint() {
  // One rank looks, so that all go on from the same.
  const auto find = [&]() -> std::string {
    const auto found = find_resume(config_, folder_.checkpoints);
    if (!found && config_.checkpoint.enable && config_.checkpoint.resume == "never" &&
        ckpt::latest_checkpoint(folder_.checkpoints))
      throw InvalidArgument(text(
          "[train] wanted a folder without checkpoints for a new run, got ",
          folder_.path.string(),
          "; go on there with --checkpoint.resume auto, or set job.dump_folder to "
          "another"));
    return found ? found->string() : std::string();
  };
  resume_ = share_text(world_, leads() ? find() : std::string());
}

void Job::lay_out() {
  const BatchShape batch = choose_batch(config_, degrees_);
  const auto costs = estimate_layers(model_.plan, config_, batch);
  const Layout first = first_layout(config_, degrees_, batch, costs);
  say(text(
      "model: ",
      model_.plan.type,
      ", ",
      data::with_thousands(model_.plan.count_parameters()),
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
  engine_ = std::make_unique<Engine>(mesh_, model_.plan, choice_->layout, config_);
}

void Job::load() {
  if (!resume_.empty()) {
    state_ = load_state(resume_, model_.plan, config_, *engine_);
    say(text("going on after step ", state_.step, " of ", resume_));
    if (state_.data_tokens != 0 && state_.data_tokens != sources_.training.size())
      say(text(
          "the data is not what it was: ",
          data::with_thousands(state_.data_tokens),
          " tokens before, ",
          data::with_thousands(sources_.training.size()),
          " now; samples are not those that would have come"));
  } else if (!model_.weights.empty()) {
    model::load_weights(
        engine_->layers(), model_.plan, ckpt::WeightFiles(model_.weights));
    engine_->optimizer().refresh_masters();
    say(text("weights: ", model_.weights.string()));
  }
  first_step_ = state_.step;
  state_.data_tokens = sources_.training.size();
  loader_.seek(state_.step);
  if (leads()) {
    ckpt::write_durably(folder_.config(), to_toml(config_));
    metrics_ = std::make_unique<MetricsFile>(folder_.metrics(), state_.step);
  }
}

data::TokenBatch Job::next_batch(data::TokenLoader& loader, int64_t step) const {
  // Stages in the middle see no tokens.
  return engine_->reads_data() ? loader.next() : data::TokenBatch{.step = step};
}

StepMetrics Job::step() {
  auto account = memory::MemoryAccount::process();
  account.reset_peak();
  const auto start = std::chrono::steady_clock::now();
  const double rate =
      config_.optimizer.lr *
      lr_factor(config_.lr_scheduler, state_.step, config_.training.steps);
  const StepOutcome outcome = engine_->step(next_batch(loader_, state_.step), rate);
  const bool stop = options_.should_stop && options_.should_stop();
  const StepTotals totals = total(
      world_,
      degrees_,
      {.outcome = outcome,
       .peak_bytes = account.peak(),
       .has_loss = engine_->has_last(),
       .stop = stop});
  ++state_.step;
  const int64_t tokens = config_.training.global_batch_size * config_.training.seq_len;
  state_.tokens += tokens;
  result_.stopped = totals.stop && state_.step < config_.training.steps;
  return {
      .step = state_.step,
      .loss = totals.loss,
      .grad_norm = outcome.grad_norm,
      .lr = rate,
      .tokens = state_.tokens,
      .tokens_per_s = static_cast<double>(tokens) / seconds_since(start),
      .bubble = totals.bubble,
      .peak_bytes = totals.peak_bytes};
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
}

void Job::trace(bool last) {
  last_step_ = engine_->pipeline().report();
  if (degrees_.pp > 1)
    last_step_.predict(costs_of(*choice_, last_step_));
  if (!leads())
    return;
  if (!last)
    ckpt::write_durably(folder_.trace(state_.step), pipe::to_trace(last_step_));
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
  chosen.job.dump_folder =
      share_text(world, world.rank() == 0 ? choose_run_folder(config) : std::string());
  try {
    return Job(world, chosen, options).run();
  } catch (...) {
    // A folder of our own naming that nothing was written to is of no use to anybody.
    std::error_code ignored;
    if (config.job.dump_folder.empty())
      std::filesystem::remove(chosen.job.dump_folder, ignored);
    throw;
  }
}

}  // namespace trireme::train
