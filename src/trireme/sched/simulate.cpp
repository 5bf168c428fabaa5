#include "trireme/sched/simulate.h"

#include <algorithm>
#include <cmath>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/channels.h"
#include "trireme/sched/index.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

constexpr double kNotYet = -1;

class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulateOptions& options)
      : schedule_(schedule),
        costs_(options.costs),
        details_(options.details),
        graph_(schedule),
        channels_(schedule),
        next_(schedule.actions.size()),
        clock_(schedule.actions.size()),
        first_(schedule.actions.size(), kNotYet),
        forward_inputs_(index(schedule.stages()) * index(schedule.microbatches)),
        backward_inputs_(forward_inputs_.size()) {
    for (const Link& link : links_of(channels_, costs_))
      links_.push_back({.link = link});
    for (int stage = 0; stage < schedule.stages(); ++stage)
      for (int m = 0; m < schedule.microbatches; ++m) {
        inputs(true, stage, m).missing = static_cast<int>(graph_.before(stage).size());
        inputs(false, stage, m).missing = static_cast<int>(graph_.after(stage).size());
      }
    result_.busy.resize(schedule.actions.size());
    if (details_)
      result_.timeline.resize(schedule.actions.size());
  }

  Simulation run() {
    for (int rank = schedule_.ranks(); rank-- > 0;)
      ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      advance(rank);
    }
    check_ended();
    finish();
    return std::move(result_);
  }

 private:
  struct LinkState {
    Link link;
    double free = 0;
  };
  /// What a computation of a stage's microbatch waits for.
  struct Inputs {
    double there = 0;
    int missing = 0;
    /// The stage whose result came last.
    int last = -1;
  };

  Inputs& inputs(bool forward, int stage, int microbatch) {
    auto& all = forward ? forward_inputs_ : backward_inputs_;
    return all[index(stage) * index(schedule_.microbatches) + index(microbatch)];
  }

  // When all inputs of the action are there; kNotYet if one is not.
  double inputs_there(const Action& action) {
    double time = 0;
    for_each_half(action, [&](const Action& half) {
      const bool forward = half.kind() == ActionKind::Forward;
      if (!forward && !gives_input_grad(half.kind()))
        return;
      const Inputs& needed = inputs(forward, half.stage(), half.microbatch());
      time = needed.missing > 0 || time < 0 ? kNotYet : std::max(time, needed.there);
    });
    return time;
  }

  void advance(int rank) {
    const auto& list = schedule_.actions[index(rank)];
    for (size_t& next = next_[index(rank)]; next < list.size(); ++next) {
      if (!is_compute(list[next].kind()))
        continue;
      const double there = inputs_there(list[next]);
      if (there < 0)
        return;
      carry_out(rank, list[next], std::max(there, clock_[index(rank)]));
    }
  }

  void carry_out(int rank, const Action& action, double start) {
    const double cost = cost_of(action, costs_);
    const bool waited = start > clock_[index(rank)];
    clock_[index(rank)] = start + cost;
    if (first_[index(rank)] < 0)
      first_[index(rank)] = start;
    result_.busy[index(rank)] += cost;
    if (details_)
      note_time({action, start, start + cost}, waited);
    for_each_half(action, [&](const Action& half) {
      if (half.kind() == ActionKind::Forward)
        deliver(half, true, start + cost);
      else if (gives_input_grad(half.kind()))
        deliver(half, false, start + cost);
    });
  }

  void note_time(Timed timed, bool waited) {
    for_each_half(timed.action, [&](const Action& half) {
      const bool forward = half.kind() == ActionKind::Forward;
      if (!waited || half.kind() == ActionKind::WeightGrad)
        return;
      const Inputs& needed = inputs(forward, half.stage(), half.microbatch());
      if (needed.there == timed.start && needed.last >= 0) {
        timed.awaited = needed.last;
        timed.awaited_forward = forward;
      }
    });
    result_.timeline[index(schedule_.owner(timed.action.stage()))].push_back(timed);
  }

  // Gives a result to all stages that wait for it, at once on this rank and over links
  // to others.
  void deliver(const Action& half, bool forward, double made) {
    const auto give = [&](int stage, double there) {
      Inputs& target = inputs(forward, stage, half.microbatch());
      if (target.last < 0 || there > target.there)
        target.last = half.stage();
      target.there = std::max(target.there, there);
      --target.missing;
    };
    const auto& stages =
        forward ? graph_.after(half.stage()) : graph_.before(half.stage());
    for (const int stage : stages)
      if (schedule_.owner(stage) == schedule_.owner(half.stage()))
        give(stage, made);
    const ActionKind send =
        forward ? ActionKind::SendForward : ActionKind::SendBackward;
    for (const auto& use : channels_.uses({send, half.stage(), half.microbatch()})) {
      LinkState& state = links_[index(use.channel)];
      state.free =
          std::max(made, state.free) + costs_.message_bytes / state.link.bandwidth;
      give(use.other, state.free + state.link.latency);
      ready_.push_back(schedule_.owner(use.other));
    }
  }

  void check_ended() const {
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto& list = schedule_.actions[index(rank)];
      if (next_[index(rank)] < list.size())
        throw InvalidArgument(text(
            "[sched] wanted a schedule that ends, but rank ",
            rank,
            " waits for ever at ",
            to_string(list[next_[index(rank)]])));
    }
  }

  void finish() {
    const auto most = [](const std::vector<double>& values) {
      return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
    };
    result_.makespan = most(clock_);
    result_.ideal = most(result_.busy);
    if (!std::isfinite(result_.makespan))
      throw InvalidArgument(
          "[sched] wanted costs whose sum is a number, got more than one can hold");
    result_.wall_bubble = result_.makespan - result_.ideal;
    double span = 0;
    for (size_t rank = 0; rank < clock_.size(); ++rank) {
      const double busy = result_.busy[rank];
      result_.idle.push_back(result_.makespan - busy);
      if (first_[rank] >= 0)
        span = std::max(span, clock_[rank] - first_[rank]);
      result_.peak_activations.push_back(peak_activations(schedule_.actions[rank]));
      result_.peak_bytes.push_back(peak_live(
          schedule_.actions[rank],
          [this](int stage) { return costs_.stage(stage).activation_bytes; }));
    }
    result_.span_bubble = std::max(0.0, span - result_.ideal);
    for (int stage = 0; stage < schedule_.stages(); ++stage)
      result_.peak_bytes[index(schedule_.owner(stage))] +=
          costs_.stage(stage).weight_bytes;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  bool details_;
  const StageGraph graph_;
  const ChannelMap channels_;
  std::vector<int> ready_;
  std::vector<size_t> next_;
  std::vector<double> clock_;
  std::vector<double> first_;
  std::vector<Inputs> forward_inputs_;
  std::vector<Inputs> backward_inputs_;
  std::vector<LinkState> links_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Schedule& schedule, const SimulateOptions& options) {
  validate(schedule);
  check_costs(options.costs, schedule.stages(), schedule.ranks());
  // Of a lowered schedule the messages are not timed, but they have to come through.
  if (schedule.lowered)
    if (const Proof proof = prove(schedule); !proof.holds)
      throw InvalidArgument(
          text("[sched] wanted a schedule that ends, but ", proof.why));
  Simulation result = Simulator(schedule, options).run();
  if (options.details)
    result.critical_path = critical_path(result.timeline, schedule);
  return result;
}

}  // namespace trireme::sched
