#include "trireme/pipe/runtime.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "trireme/comm/no_collectives.h"
#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/index.h"

namespace trireme::pipe {

using sched::Action;
using sched::ActionKind;
using sched::index;

struct Runtime::Context final : ActionContext {
  Context(Runtime& r, const Action& a, std::function<void()> d)
      : runtime(r), what(a), body(std::move(d)) {}
  const Action& action() const override { return what; }
  StageModule& module() const override { return runtime.module(what.stage()); }
  const StepData& data() const override { return *runtime.data_; }
  void run() override { body(); }
  void run_forward() override {
    check_overlap();
    run_half(what.forward_half(), runtime.executor_, runtime.forward_time_);
  }
  void run_backward() override {
    check_overlap();
    run_half(what.backward_half(), runtime.second_executor_, runtime.backward_time_);
  }
  void run_half(
      const Action& half, autograd::Executor& executor, Interval& time) const {
    std::optional<comm::NoCollectives> scope;
    if (std::this_thread::get_id() != home)
      scope.emplace(refusal(half));
    runtime.time_half(half, executor, time);
  }
  void check_overlap() const {
    if (what.kind() != ActionKind::Overlap)
      throw InvalidArgument(text(
          "[pipe] expected an overlap to run half of, got ",
          sched::to_string(what),
          "; call run()"));
  }

  Runtime& runtime;
  const Action& what;
  std::function<void()> body;
  /// What a handler runs here has one order on all ranks.
  std::thread::id home = std::this_thread::get_id();
};

Runtime::Runtime(std::vector<Stage> stages, Links links, RuntimeOptions options)
    : stages_(std::move(stages)),
      links_(std::move(links)),
      options_(std::move(options)),
      local_of_stage_(links_.stages(), -1),
      splits_(stages_.size()),
      has_told_split_(stages_.size(), false) {
  for (size_t i = 0; i < stages_.size(); ++i)
    local_of_stage_[index(stages_[i].index)] = static_cast<int>(i);
}

void Runtime::run(
    const Program& program,
    std::vector<std::optional<StepChannel>> channels,
    int rank,
    StepData& data) {
  program_ = &program;
  data_ = &data;
  channels_ = std::move(channels);
  expected_.resize(channels_.size());
  held_.resize(stages_.size() * index(program.schedule.microbatches));
  const std::vector<Action>& list = program.schedule.actions[index(rank)];
  for (autograd::SplitCounts& counts : splits_)
    counts.clear();
  timeline_.actions.clear();
  timeline_.message_bytes = 0;
  timeline_.actions.reserve(list.size());
  timeline_.start_ns = now_ns();
  for (position_ = 0; position_ < static_cast<int>(list.size()); ++position_) {
    const Action& action = list[index(position_)];
    execute(action);
    if (data.with_extras && !extras_.empty())
      run_extras(action);
  }
  timeline_.end_ns = now_ns();
  channels_.clear();
  log_splits();
}

/// A stage whose backward stays whole gains nothing from I and W, and nobody would see.
void Runtime::log_splits() {
  using autograd::SplitCounts;
  for (size_t i = 0; i < splits_.size(); ++i) {
    const auto& counts = splits_[i];
    if (has_told_split_[i] || counts.total(SplitCounts::kSplit) > 0 ||
        counts.total(SplitCounts::kWhole) + counts.total(SplitCounts::kTwice) == 0)
      continue;
    has_told_split_[i] = true;
    TRIREME_LOG(warn, "pipe")
        << "stage " << stages_[i].index
        << ": its backward cannot be split, so that I does all of it and W next to "
           "nothing; see StepReport::splits for the nodes";
  }
}

void Runtime::clear() {
  for (Held& held : held_)
    held = Held();
  for (auto& queue : expected_)
    queue.clear();
  channels_.clear();
  awaited_.reset();
}

void Runtime::execute(const Action& action) {
  if (sched::is_receive(action.kind())) {
    expect(action);
    return;
  }
  if (action.kind() == ActionKind::Bubble)
    return;
  if (sched::is_compute(action.kind()))
    sched::for_each_half(action, [this](const Action& half) {
      await_inputs(half);
      announce_last_backward(half);
    });
  const int64_t start = now_ns();
  dispatch(action, executor_);
  note(action, start);
}

void Runtime::note(const Action& action, int64_t start_ns) {
  ActionTime& noted = note_end(timeline_, action, start_ns, options_.account.live());
  if (action.kind() == ActionKind::Overlap) {
    noted.forward = std::exchange(forward_time_, {});
    noted.backward = std::exchange(backward_time_, {});
  }
}

/// The handler that was put in its place, or the action itself.
void Runtime::dispatch(const Action& action, autograd::Executor& executor) {
  const ActionHandler& handler = replaced_[index(static_cast<int>(action.kind()))];
  if (!handler)
    return carry_out(action, executor);
  Context context(*this, action, [&] { carry_out(action, executor); });
  handler(context);
}

void Runtime::carry_out(const Action& action, autograd::Executor& executor) {
  const int stage = action.stage();
  const int microbatch = action.microbatch();
  switch (action.kind()) {
    case ActionKind::Forward:
      return forward(stage, microbatch);
    case ActionKind::Backward:
      return backward(stage, microbatch, executor);
    case ActionKind::InputGrad:
      return input_grad(stage, microbatch, executor);
    case ActionKind::WeightGrad:
      return weight_grad(stage, microbatch, executor);
    case ActionKind::Overlap:
      return overlap(action);
    case ActionKind::SendForward:
    case ActionKind::SendBackward:
      return send(action);
    case ActionKind::Unshard:
    case ActionKind::Reshard:
    case ActionKind::ReduceGrad:
      return shard(action);
    case ActionKind::ReceiveForward:
    case ActionKind::ReceiveBackward:
    case ActionKind::Bubble:
      break;
  }
}

/// Both halves. They are of different microbatches, so neither touches what the other
/// holds.
void Runtime::overlap(const Action& action) {
  if (!runs_at_once(action)) {
    time_half(action.forward_half(), executor_, forward_time_);
    time_half(action.backward_half(), executor_, backward_time_);
    return;
  }
  second_thread_.run_both(
      [&] {
        const comm::NoCollectives scope(refusal(action.forward_half()));
        time_half(action.forward_half(), executor_, forward_time_);
      },
      [&] {
        const comm::NoCollectives scope(refusal(action.backward_half()));
        time_half(action.backward_half(), second_executor_, backward_time_);
      });
}

/// What a stage hears that says it may overlap and has collectives after all. Those of
/// a GradientSync run on a thread and a group of their own, in one order.
std::string Runtime::refusal(const Action& half) {
  return text(
      "[pipe] expected no collective inside stage ",
      half.stage(),
      " while its ",
      sched::to_string(half),
      " runs beside another half, got one, which ranks may come to in another order "
      "each; take back its allow_overlap(), or run the halves in turn");
}

/// Both stages have to allow it: two threads' collectives have no common order.
bool Runtime::runs_at_once(const Action& overlap) {
  if (!overlap_at_once_)
    return false;
  for (const int stage :
       {overlap.forward_half().stage(), overlap.backward_half().stage()}) {
    if (module(stage).may_overlap())
      continue;
    if (!std::exchange(has_told_overlap_, true))
      TRIREME_LOG(info, "pipe")
          << "stage " << stage
          << " does not say that it may overlap, so the halves of OVERLAP_F_B run in "
             "turn; call allow_overlap() if it has no collectives inside";
    return false;
  }
  return true;
}

void Runtime::time_half(
    const Action& half, autograd::Executor& executor, Interval& time) {
  time.start_ns = now_ns();
  dispatch(half, executor);
  time.end_ns = now_ns();
}

void Runtime::announce_last_backward(const Action& half) {
  if (options_.sync != nullptr && sched::gives_weight_grad(half.kind()) &&
      program_->last_backward[index(half.stage())] == position_)
    options_.sync->last_backward(half.stage());
}

void Runtime::shard(const Action& action) {
  if (options_.sync == nullptr)
    return;
  if (action.kind() == ActionKind::Unshard)
    options_.sync->unshard(action.stage());
  else if (action.kind() == ActionKind::Reshard)
    options_.sync->reshard(action.stage());
  else
    options_.sync->reduce(action.stage());
}

void Runtime::replace(ActionKind kind, ActionHandler handler) {
  if (sched::is_send(kind) || sched::is_receive(kind) || kind == ActionKind::Bubble)
    throw InvalidArgument(
        "[pipe] expected a computation or an action on shards to replace, got a "
        "message or a bubble; messages are the pipeline's own");
  replaced_[index(static_cast<int>(kind))] = std::move(handler);
}

bool Runtime::uses(ActionKind kind) const {
  if (replaced_[index(static_cast<int>(kind))])
    return true;
  return std::any_of(extras_.begin(), extras_.end(), [kind](const auto& extra) {
    return extra.first.kind() == kind;
  });
}

void Runtime::add(const Action& after, std::function<void()> extra) {
  extras_.emplace_back(after, std::move(extra));
}

void Runtime::run_extras(const Action& action) {
  for (const auto& [after, extra] : extras_) {
    bool is_it = after == action;
    sched::for_each_half(action, [&](const Action& half) { is_it |= after == half; });
    if (is_it)
      extra();
  }
}

StageModule& Runtime::module(int stage) const {
  return *stages_[local(stage)].module;
}

Runtime::Held& Runtime::held(int stage, int microbatch) {
  return held_
      [local(stage) * index(program_->schedule.microbatches) + index(microbatch)];
}

const Runtime::Held& Runtime::held(int stage, int microbatch) const {
  return const_cast<Runtime*>(this)->held(stage, microbatch);
}

}  // namespace trireme::pipe
