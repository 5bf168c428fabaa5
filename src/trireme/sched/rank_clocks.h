// The ranks of a pipeline in time: when each is free, and what has come to it.
#pragma once
#include <algorithm>
#include <vector>

#include "trireme/sched/channels.h"
#include "trireme/sched/costs.h"
#include "trireme/sched/index.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// The result of a computation on its way to another rank.
struct Message {
  /// What made it: F, B or I; of an overlap, that half.
  Action made_by;
  /// The stage that it goes to.
  int to = 0;
  /// When it leaves, and when it is there.
  double start = 0;
  double end = 0;
};

/// Moves on action by action, for those who decide on the order. Messages travel while
/// ranks compute, one after another on each link. Schedule and costs have to outlive
/// it; of the schedule it takes the stages, and not the actions.
class RankClocks {
 public:
  RankClocks(const Schedule& schedule, const Costs& costs);

  /// What a computation of a stage's microbatch waits for.
  struct Inputs {
    double there = 0;
    int missing = 0;
    /// The stage whose result came last.
    int last = -1;
  };
  const Inputs& inputs(bool forward, int stage, int microbatch) const {
    return (forward ? forward_inputs_ : backward_inputs_)[place(stage, microbatch)];
  }

  /// When a rank is free.
  double clock(int rank) const { return clocks_[index(rank)]; }
  double latest_clock() const {
    return clocks_.empty() ? 0 : *std::max_element(clocks_.begin(), clocks_.end());
  }

  static constexpr double kNotYet = -1;
  /// When all inputs of a computation are there; kNotYet if one is not.
  double inputs_there(const Action& action) const {
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

  /// Carries out a computation of `rank` that takes `cost`, from `start` on. Its
  /// results go to the stages that wait for them: at once on this rank, over links to
  /// others, of which `sent(message)` is told.
  template <class Sent>
  void carry_out(
      int rank, const Action& action, double start, double cost, const Sent& sent) {
    clocks_[index(rank)] = start + cost;
    for_each_half(action, [&](const Action& half) {
      if (half.kind() == ActionKind::Forward)
        deliver(half, true, start + cost, sent);
      else if (gives_input_grad(half.kind()))
        deliver(half, false, start + cost, sent);
    });
  }

  /// From here on it can be turned back.
  void mark();
  /// To where it was marked.
  void turn_back();

 private:
  struct Change {
    Inputs* inputs;
    Inputs before;
  };

  size_t place(int stage, int microbatch) const {
    return index(stage) * index(schedule_.microbatches) + index(microbatch);
  }

  template <class Sent>
  void deliver(const Action& half, bool forward, double made, const Sent& sent) {
    const int m = half.microbatch();
    const auto& stages =
        forward ? graph_.after(half.stage()) : graph_.before(half.stage());
    for (const int stage : stages)
      if (schedule_.owner(stage) == schedule_.owner(half.stage()))
        give(forward, stage, m, half.stage(), made);
    const ActionKind send =
        forward ? ActionKind::SendForward : ActionKind::SendBackward;
    for (const auto& use : channels_.uses({send, half.stage(), m})) {
      const Link& link = links_[index(use.channel)];
      double& free = free_[index(use.channel)];
      const double leaves = std::max(made, free);
      free = leaves + costs_.message_bytes / link.bandwidth;
      give(forward, use.other, m, half.stage(), free + link.latency);
      sent(Message{half, use.other, leaves, free + link.latency});
    }
  }

  void give(bool forward, int stage, int microbatch, int from, double there) {
    Inputs& target =
        (forward ? forward_inputs_ : backward_inputs_)[place(stage, microbatch)];
    if (marked_)
      changes_.push_back({&target, target});
    if (target.last < 0 || there > target.there)
      target.last = from;
    target.there = std::max(target.there, there);
    --target.missing;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  const StageGraph graph_;
  const ChannelMap channels_;
  const std::vector<Link> links_;
  /// By rank, and by channel: when it is free.
  std::vector<double> clocks_;
  std::vector<double> free_;
  std::vector<Inputs> forward_inputs_;
  std::vector<Inputs> backward_inputs_;
  /// What was at the mark.
  bool marked_ = false;
  std::vector<double> marked_clocks_;
  std::vector<double> marked_free_;
  std::vector<Change> changes_;
};

}  // namespace trireme::sched
