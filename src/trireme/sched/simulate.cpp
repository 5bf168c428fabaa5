#include "trireme/sched/simulate.h"

#include <algorithm>
#include <cmath>

#include "trireme/core/error.h"
#include "trireme/sched/action_text.h"
#include "trireme/sched/index.h"
#include "trireme/sched/prove.h"
#include "trireme/sched/rank_clocks.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulateOptions& options)
      : schedule_(schedule),
        costs_(options.costs),
        details_(options.details),
        clocks_(schedule, options.costs),
        next_(schedule.actions.size()),
        first_(schedule.actions.size(), RankClocks::kNotYet) {
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
  void advance(int rank) {
    const auto& list = schedule_.actions[index(rank)];
    for (size_t& next = next_[index(rank)]; next < list.size(); ++next) {
      if (!is_compute(list[next].kind()))
        continue;
      const double there = clocks_.inputs_there(list[next]);
      if (there < 0)
        return;
      carry_out(rank, list[next], std::max(there, clocks_.clock(rank)));
    }
  }

  void carry_out(int rank, const Action& action, double start) {
    const double cost = cost_of(action, costs_);
    if (first_[index(rank)] < 0)
      first_[index(rank)] = start;
    result_.busy[index(rank)] += cost;
    if (details_)
      note_time({action, start, start + cost}, start > clocks_.clock(rank));
    clocks_.carry_out(rank, action, start, cost, [this](const Message& message) {
      ready_.push_back(schedule_.owner(message.to));
      if (details_ && schedule_.lowered)
        result_.messages.push_back(message);
    });
  }

  void note_time(Timed timed, bool waited) {
    for_each_half(timed.action, [&](const Action& half) {
      const bool forward = half.kind() == ActionKind::Forward;
      if (!waited || half.kind() == ActionKind::WeightGrad)
        return;
      const auto& needed = clocks_.inputs(forward, half.stage(), half.microbatch());
      if (needed.there == timed.start && needed.last >= 0) {
        timed.awaited = needed.last;
        timed.awaited_forward = forward;
      }
    });
    result_.timeline[index(schedule_.owner(timed.action.stage()))].push_back(timed);
  }

  void check_ended() const {
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto& list = schedule_.actions[index(rank)];
      if (next_[index(rank)] < list.size())
        throw InvalidArgument(text(
            "[sched] expected a schedule that ends, but rank ",
            rank,
            " waits for ever at ",
            to_string(list[next_[index(rank)]]),
            "; put what it waits for before it"));
    }
  }

  void finish() {
    result_.makespan = clocks_.latest_clock();
    for (const double busy : result_.busy)
      result_.ideal = std::max(result_.ideal, busy);
    if (!std::isfinite(result_.makespan))
      throw InvalidArgument(
          "[sched] expected costs whose sum is a number, got more than one can hold; "
          "give smaller costs");
    result_.wall_bubble = result_.makespan - result_.ideal;
    double span = 0;
    for (int rank = 0; rank < schedule_.ranks(); ++rank) {
      const auto& list = schedule_.actions[index(rank)];
      const double first = first_[index(rank)];
      result_.idle.push_back(result_.makespan - result_.busy[index(rank)]);
      if (first >= 0)
        span = std::max(span, clocks_.clock(rank) - first);
      result_.peak_activations.push_back(peak_activations(list));
      result_.peak_bytes.push_back(peak_live(
          list, [this](int stage) { return costs_.stage(stage).activation_bytes; }));
    }
    result_.span_bubble = std::max(0.0, span - result_.ideal);
    for (int stage = 0; stage < schedule_.stages(); ++stage)
      result_.peak_bytes[index(schedule_.owner(stage))] +=
          costs_.stage(stage).weight_bytes;
  }

  const Schedule& schedule_;
  const Costs& costs_;
  bool details_;
  RankClocks clocks_;
  std::vector<int> ready_;
  std::vector<size_t> next_;
  std::vector<double> first_;
  Simulation result_;
};

}  // namespace

Simulation simulate(const Schedule& schedule, const SimulateOptions& options) {
  validate(schedule);
  check_costs(options.costs, schedule.stages(), schedule.ranks());
  // Of a lowered schedule the messages are not timed, but they have to come through.
  if (schedule.lowered)
    if (const Proof proof = prove(schedule); !proof.holds)
      throw InvalidArgument(text(
          "[sched] expected a schedule that ends, but ",
          proof.why,
          "; reorder these actions"));
  Simulation result = Simulator(schedule, options).run();
  if (options.details)
    result.critical_path = critical_path(result.timeline, schedule);
  return result;
}

}  // namespace trireme::sched
