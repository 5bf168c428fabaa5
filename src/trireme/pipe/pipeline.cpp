#include "trireme/pipe/pipeline.h"

#include <algorithm>
#include <array>
#include <tuple>

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include "trireme/comm/agree.h"
#include "trireme/comm/clock_offset.h"
#include "trireme/comm/collective.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/rank_hosts.h"
#include "trireme/core/error.h"
#include "trireme/memory/account.h"
#include "trireme/pipe/channel_book.h"
#include "trireme/pipe/failure.h"
#include "trireme/pipe/named_tensors.h"
#include "trireme/pipe/stage_owners.h"
#include "trireme/pipe/step_data.h"
#include "trireme/pipe/tied_gradients.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {

namespace {

constexpr std::array kShardKinds = {
    sched::ActionKind::Unshard,
    sched::ActionKind::Reshard,
    sched::ActionKind::ReduceGrad};

bool has_kind(const sched::Schedule& schedule, sched::ActionKind kind) {
  return std::any_of(
      schedule.actions.begin(), schedule.actions.end(), [kind](const auto& list) {
        return std::any_of(list.begin(), list.end(), [kind](const auto& action) {
          return action.kind() == kind;
        });
      });
}

/// All stages of a rank in evaluation mode, for as long as it lives.
class EvaluationMode {
 public:
  explicit EvaluationMode(const std::vector<Stage>& stages) {
    for (const Stage& stage : stages)
      resume_.push_back(stage.module->pause_training());
  }
  ~EvaluationMode() {
    for (const auto& resume : resume_)
      resume();
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  std::vector<std::function<void()>> resume_;
};

}  // namespace

struct Pipeline::Impl {
  Impl(
      std::vector<Stage> stages,
      const comm::Group& outer,
      Loss loss,
      PipelineOptions given)
      : options(std::move(given)), has_loss(static_cast<bool>(loss)) {
    join(outer, stages);
    Links links(
        static_cast<int>(place.rank_of_stage.size()),
        options.skips,
        gather_skips(stages, group, place.rank_of_stage.size()));
    runtime = std::make_unique<Runtime>(
        std::move(stages),
        std::move(links),
        RuntimeOptions{
            .loss = std::move(loss),
            .sync = options.sync.get(),
            .seed = options.seed,
            .account = account});
    configure();
  }

  /// What depends on the group.
  void configure() {
    runtime->set_store(store());
    runtime->set_overlap(overlap_at_once);
  }
  void join(const comm::Group& outer, const std::vector<Stage>& stages);
  autograd::GradientStore& store() {
    return tied ? static_cast<autograd::GradientStore&>(*tied) : *options.store;
  }
  const Program& program(int microbatches, bool trains);
  Program prepare(sched::Schedule schedule) const;
  void carry_out(const Program& program, StepData& data);
  /// Under `schedule`, or under the one that the options say.
  StepData run(
      const Batch& batch,
      const StepPurpose& purpose,
      bool keep_outputs,
      const sched::Schedule* schedule = nullptr);
  const Program& use(const sched::Schedule& schedule);
  /// Whether the schedule needs UNSHARD, RESHARD and REDUCE_GRAD.
  bool shards() const;
  void check_handled(sched::ActionKind kind) const;
  void share_losses(StepData& data) const;
  StepResult result(StepData data) const;
  void tell_others(const std::string& why) const;

  PipelineOptions options;
  bool has_loss = false;
  /// Of this pipeline alone, so that its channels meet no others.
  comm::Group group;
  std::optional<ChannelBook> channels;
  StagePlaces place;
  /// Null if nothing is tied.
  std::unique_ptr<TiedGradients> tied;
  std::unique_ptr<Runtime> runtime;
  /// By number of microbatches, whether it trains, and whether it has actions on
  /// shards.
  std::map<std::tuple<int, bool, bool>, Program> programs;
  /// One that was given for a step.
  std::optional<Program> other;
  /// Of the last step.
  const Program* last = nullptr;
  memory::MemoryAccount account;
  bool overlap_at_once = false;
  /// Where the ranks run, and how this one's clock differs from the first one's.
  std::vector<comm::RankHost> hosts;
  comm::ClockOffset clock;
  /// What the others hear of a step that has failed.
  std::string failure;
  /// In this group; and those that random numbers go by.
  int64_t steps = 0;
  int64_t trained_steps = 0;
  bool failed = false;
};

void Pipeline::Impl::join(const comm::Group& outer, const std::vector<Stage>& stages) {
  failed = true;  // until all of this has gone well
  tied.reset();
  channels.reset();
  group = outer.split(0, outer.rank());
  channels.emplace(group, options.channel_bytes);
  place = {group.rank(), find_owners(stages, group), group.members()};
  comm::check_everywhere(group, {.module = "pipe"}, [&] {
    check_stages(stages, options, place.rank_of_stage);
    if (options.sync)
      options.sync->use(*options.store);
  });
  if (!options.tied.empty())
    tied = std::make_unique<TiedGradients>(
        options.tied,
        place.rank_of_stage,
        stages,
        group.split(0, group.rank()),
        *options.store,
        options.sync ? options.sync->gradient_dtype() : std::nullopt);
  if (options.sync)
    options.sync->leave_to_finish(tied ? tied->leaves() : std::vector<at::Tensor>());
  hosts = comm::gather_hosts(group, comm::own_host());
  clock = comm::measure_offset(group, hosts);
  overlap_at_once =
      options.overlap == OverlapMode::AtOnce ||
      (options.overlap == OverlapMode::Auto && comm::cores_per_rank(hosts) >= 2);
  steps = 0;
  failed = false;
}

/// A schedule that is given for one step instead of the options'.
const Program& Pipeline::Impl::use(const sched::Schedule& schedule) {
  Program made = prepare(schedule);
  other = std::move(made);
  return *other;
}

bool Pipeline::Impl::shards() const {
  return options.sync ||
         std::any_of(kShardKinds.begin(), kShardKinds.end(), [&](auto k) {
           return runtime->uses(k);
         });
}

/// A lowered schedule is carried out as it is: what it lacks would never be called.
void Pipeline::Impl::check_handled(sched::ActionKind kind) const {
  const bool shard =
      std::find(kShardKinds.begin(), kShardKinds.end(), kind) != kShardKinds.end();
  if (shard && options.custom && options.custom->lowered &&
      !has_kind(*options.custom, kind))
    throw InvalidArgument(text(
        "[pipe] expected a schedule with ",
        sched::token(kind),
        " to put something in its place, got the lowered schedule ",
        options.custom->name,
        " without it; add it there, or give a schedule without messages"));
}

/// Made once for each number of microbatches.
const Program& Pipeline::Impl::program(int microbatches, bool trains) {
  const std::tuple key{microbatches, trains, shards()};
  const auto known = programs.find(key);
  if (known != programs.end())
    return known->second;
  return programs
      .emplace(
          key,
          prepare(
              trains ? make_schedule(options, place.rank_of_stage, microbatches)
                     : forward_schedule(place.rank_of_stage, microbatches)))
      .first->second;
}

Program Pipeline::Impl::prepare(sched::Schedule schedule) const {
  check_placement(schedule, place.rank_of_stage);
  schedule.extra_edges = runtime->links().extra_edges();
  return make_program(
      std::move(schedule),
      {.sharding = shards(), .max_active_stages = options.max_active_stages});
}

/// Runs the step; whatever goes wrong here, the other ranks hear of it.
void Pipeline::Impl::carry_out(const Program& program, StepData& data) {
  account.reset_peak();
  const memory::AccountScope scope(account);
  auto opened = channels->open(program);
  try {
    if (options.sync && program.trains)
      options.sync->use(*options.store);  // another pipeline may share it
    runtime->run(program, std::move(opened), group.rank(), data);
    if (tied && program.trains)
      tied->finish();
    if (options.sync && program.trains)
      options.sync->finish();
    if (data.keep_outputs)
      data.merged = merge(data.outputs, options.output_specs);
    if (options.share_losses && data.call != StepCall::ForwardOnly)
      share_losses(data);
    // A step is done on all ranks or on none: a rank that is through before another one
    // fails must not go on to its optimizer. The first rank of a schedule is mostly the
    // last to end and the next to begin, so this costs next to nothing.
    comm::barrier(group);
  } catch (...) {
    const FailedAt at{
        .rank = group.rank(),
        .position = runtime->position(),
        .awaited = runtime->awaited(),
        .awaited_from = runtime->awaited_from(),
        .members = place.members};
    runtime->clear();
    const std::exception_ptr error = std::current_exception();
    failure = describe_failure(program, at, error_text(error));
    throw_failure(program, at, error);
  }
}

/// From the rank of the last stage to all. A dtype's numbers are exact as doubles.
void Pipeline::Impl::share_losses(StepData& data) const {
  const int root = place.rank_of_stage.back();
  const auto count = static_cast<int64_t>(last->schedule.microbatches);
  at::Tensor row = at::zeros({count + 1}, at::kDouble);
  auto* numbers = row.mutable_data_ptr<double>();
  if (place.rank == root) {
    numbers[0] = static_cast<double>(data.losses[0].scalar_type());
    for (int64_t m = 0; m < count; ++m)
      numbers[m + 1] = data.losses[sched::index(m)].item<double>();
  }
  comm::broadcast(group, row, root);
  if (place.rank == root)
    return;
  data.losses.clear();
  for (int64_t m = 0; m < count; ++m)
    data.losses.push_back(
        at::full({}, numbers[m + 1], static_cast<at::ScalarType>(numbers[0])));
}

StepData Pipeline::Impl::run(
    const Batch& batch,
    const StepPurpose& purpose,
    bool keep_outputs,
    const sched::Schedule* given) {
  if (failed)
    throw InvalidArgument(
        "[pipe] expected a pipeline that has not failed, got one whose last step did; "
        "renew the world's group and call rejoin()");
  try {
    if (purpose.trains && !c10::GradMode::is_enabled())
      throw InvalidArgument(text(
          "[pipe] expected grad mode on for a step of ",
          comm::rank_text(place.rank, place.members),
          ", got it off; call evaluate(), or leave the no-grad scope"));
    if (purpose.trains && !has_loss && place.has(place.last_stage()))
      throw InvalidArgument(text(
          "[pipe] expected a loss on ",
          comm::rank_text(place.rank, place.members),
          ", which has the last stage, got none; give one to the pipeline"));
    const int microbatches =
        given != nullptr ? given->microbatches : count_microbatches(batch, options);
    StepData data = make_step_data(batch, options, place, microbatches, purpose);
    data.keep_outputs =
        batch.return_outputs.value_or(keep_outputs) && place.has(place.last_stage());
    data.outputs.resize(data.keep_outputs ? sched::index(microbatches) : 0);
    data.step = steps;
    data.call = purpose.call;
    data.random_step = batch.step.value_or(trained_steps);
    data.with_extras = given == nullptr;
    for (const Stage& stage : runtime->stages())
      data.auxiliary[stage.index].resize(sched::index(microbatches));
    last = given != nullptr ? &use(*given) : &program(microbatches, purpose.trains);
    carry_out(*last, data);
    ++steps;
    if (last->trains && given == nullptr)
      ++trained_steps;
    return data;
  } catch (...) {
    failed = true;
    channels.reset();  // with what is still under way in them
    if (tied)
      tied->clear();
    tell_others(failure.empty() ? error_text(std::current_exception()) : failure);
    failure.clear();
    if (options.sync)
      options.sync->abandon();  // after the others were told why
    throw;
  }
}

/// Past Group::abort(), which would put the world's rank before the pipeline's.
void Pipeline::Impl::tell_others(const std::string& why) const {
  const std::string me = text("[pipe] ", comm::rank_text(place.rank, place.members));
  group.share_engine()->abort(why.starts_with(me) ? why : text(me, " failed: ", why));
}

StepResult Pipeline::Impl::result(StepData data) const {
  std::erase_if(data.auxiliary, [](const auto& stage) {
    return std::none_of(
        stage.second.begin(), stage.second.end(), [](const at::Tensor& loss) {
          return loss.defined();
        });
  });
  return {
      .losses = std::move(data.losses),
      .outputs = std::move(data.merged),
      .auxiliary = std::move(data.auxiliary)};
}

Pipeline::Pipeline(
    std::vector<Stage> stages,
    const comm::Group& group,
    Loss loss,
    PipelineOptions options)
    : impl_(std::make_unique<Impl>(
          std::move(stages), group, std::move(loss), std::move(options))) {
  if (impl_->options.custom || impl_->options.microbatches > 0)
    // Says now what is wrong with it.
    comm::check_everywhere(impl_->group, {.module = "pipe"}, [this] { schedule(); });
}

Pipeline::~Pipeline() = default;

StepResult Pipeline::step(const Batch& batch) {
  return impl_->result(
      impl_->run(batch, {.trains = true}, impl_->options.return_outputs));
}

StepResult Pipeline::step(const Tensors& inputs, const Tensors& targets) {
  return step({.inputs = inputs, .targets = targets, .on_all_ranks = true});
}

StepResult Pipeline::evaluate(const Batch& batch) {
  const at::NoGradGuard no_grad;
  const EvaluationMode mode(impl_->runtime->stages());
  return impl_->result(impl_->run(
      batch,
      {.call = StepCall::Evaluate, .trains = false},
      impl_->options.return_outputs));
}

Tensors Pipeline::forward_only(const Batch& batch) {
  const at::NoGradGuard no_grad;
  return impl_
      ->result(impl_->run(
          batch,
          {.call = StepCall::ForwardOnly, .trains = false, .needs_targets = false},
          true))
      .outputs;
}

void Pipeline::train(bool on) {
  for (const Stage& stage : impl_->runtime->stages())
    stage.module->train(on);
}

NamedTensors Pipeline::parameters() const {
  NamedTensors all;
  for (const Stage& stage : impl_->runtime->stages())
    for (auto& named : stage.module->parameters())
      all.push_back(std::move(named));
  return without_repeats(all);
}

NamedTensors Pipeline::buffers() const {
  NamedTensors all;
  for (const Stage& stage : impl_->runtime->stages())
    for (auto& named : stage.module->buffers())
      all.push_back(std::move(named));
  return all;
}

void Pipeline::rejoin(const comm::Group& group) {
  const std::vector<int> before = impl_->place.rank_of_stage;
  impl_->join(group, impl_->runtime->stages());
  impl_->configure();
  if (impl_->place.rank_of_stage != before) {
    impl_->last = nullptr;
    impl_->programs.clear();
  }
}

void Pipeline::replace(sched::ActionKind kind, ActionHandler handler) {
  if (handler)
    impl_->check_handled(kind);
  impl_->runtime->replace(kind, std::move(handler));
}

void Pipeline::add_after(const sched::Action& action, std::function<void()> extra) {
  sched::for_each_half(action, [this](const sched::Action& half) {
    if (!impl_->place.has(half.stage()))
      throw InvalidArgument(text(
          "[pipe] expected an action of a stage of ",
          comm::rank_text(impl_->place.rank, impl_->place.members),
          ", got ",
          sched::to_string(half),
          "; add it on the rank that has the stage"));
  });
  impl_->check_handled(action.kind());
  impl_->runtime->add(action, std::move(extra));
}

const std::vector<int>& Pipeline::rank_of_stage() const {
  return impl_->place.rank_of_stage;
}

const sched::Schedule& Pipeline::schedule(int microbatches) {
  if (microbatches == 0)
    microbatches = count_microbatches({}, impl_->options);
  return impl_->program(microbatches, true).schedule;
}

StepResult Pipeline::step(const Batch& batch, const sched::Schedule& schedule) {
  const bool trains = has_backward(schedule);
  return impl_->result(impl_->run(
      batch,
      {.call = StepCall::StepWithSchedule, .trains = trains},
      impl_->options.return_outputs,
      &schedule));
}

const Timeline& Pipeline::timeline() const {
  return impl_->runtime->timeline();
}

StepReport Pipeline::report(const std::optional<sched::Costs>& costs) const {
  if (impl_->last == nullptr)
    throw InvalidArgument(
        "[pipe] expected a step to report on, got none yet; call step() first");
  StepReport report{.schedule = impl_->last->schedule};
  // Clocks drift, so this is asked anew.
  impl_->clock = comm::measure_offset(impl_->group, impl_->hosts);
  for (RankRecord& record : gather_records(
           impl_->group,
           {.timeline = shifted(timeline(), impl_->clock),
           .peak_bytes = impl_->account.peak()})) {
    report.timelines.push_back(std::move(record.timeline));
    report.peak_bytes.push_back(record.peak_bytes);
  }
  report.splits = gather_splits(impl_->group, own_splits(*impl_->runtime));
  report.measured = measure(report.schedule, report.timelines);
  if (costs)
    report.predict(*costs);
  return report;
}

const comm::ClockOffset& Pipeline::clock() const {
  return impl_->clock;
}

const std::vector<comm::RankHost>& Pipeline::hosts() const {
  return impl_->hosts;
}

const comm::Group& Pipeline::group() const {
  return impl_->group;
}

const PipelineOptions& Pipeline::options() const {
  return impl_->options;
}

const std::vector<Stage>& Pipeline::stages() const {
  return impl_->runtime->stages();
}

}  // namespace trireme::pipe
