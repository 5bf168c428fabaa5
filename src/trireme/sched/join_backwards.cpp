#include "trireme/sched/join_backwards.h"

#include <algorithm>
#include <limits>

#include "trireme/sched/rank_clocks.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

// Goes through a schedule in time, once. Where an I is next, it tries what would come
// of the rest with a whole backward instead, and turns back to there.
class Joiner {
 public:
  Joiner(Schedule& schedule, const Costs& costs, double limit, int64_t steps)
      : schedule_(schedule),
        costs_(costs),
        clocks_(schedule, costs),
        limit_(limit),
        steps_(steps) {
    for (const auto& list : schedule.actions) {
      Place& place = places_.emplace_back();
      for (const Action& action : list)
        place.work += cost_of(action, costs);
    }
  }

  /// Whether something was joined.
  bool run() {
    go_on();
    return joined_;
  }

  double makespan() const { return clocks_.latest_clock(); }
  int64_t steps_left() const { return steps_; }

 private:
  /// Where a rank is, and the work that it has before it.
  struct Place {
    size_t next = 0;
    double work = 0;
  };

  // Lets all ranks go on as far as they can, or until one is late.
  void go_on() {
    std::vector<int> ready;
    for (int rank = schedule_.ranks(); rank-- > 0;)
      ready.push_back(rank);
    while (!ready.empty() && !late_) {
      const int rank = ready.back();
      ready.pop_back();
      // Where something is joined, another action is next.
      while (!late_ && can_go_on(rank))
        if (trying_ || !join(rank))
          carry_out(rank, ready);
    }
  }

  bool can_go_on(int rank) {
    const auto& list = schedule_.actions[index(rank)];
    size_t& next = places_[index(rank)].next;
    while (next < list.size() && !is_compute(list[next].kind()))
      ++next;
    return next < list.size() && clocks_.inputs_there(list[next]) >= 0;
  }

  void carry_out(int rank, std::vector<int>& ready) {
    Place& place = places_[index(rank)];
    const Action& action = schedule_.actions[index(rank)][place.next++];
    const double cost = cost_of(action, costs_);
    const double start = std::max(clocks_.inputs_there(action), clocks_.clock(rank));
    clocks_.carry_out(rank, action, start, cost, [&](const Message& message) {
      ready.push_back(schedule_.owner(message.to));
    });
    place.work -= cost;
    steps_ -= trying_ ? 1 : 0;
    // Sums are rounded; at the end the comparison is exact.
    constexpr double kRounding = 1e-9;
    late_ = trying_ && start + cost + place.work > limit_ * (1 + kRounding);
  }

  // Joins what is next on the rank, if it is an I, at its place or at that of its W.
  bool join(int rank) {
    const Action next = schedule_.actions[index(rank)][places_[index(rank)].next];
    if (next.kind() != Kind::InputGrad || steps_ <= 0)
      return false;
    const bool joined = join(rank, next, true) || join(rank, next, false);
    joined_ = joined_ || joined;
    return joined;
  }

  bool join(int rank, const Action& input, bool early) {
    auto& list = schedule_.actions[index(rank)];
    const auto list_before = list;
    auto places = places_;
    const Action weight(Kind::WeightGrad, input.stage(), input.microbatch());
    const Action both(Kind::Backward, input.stage(), input.microbatch());
    const auto own =
        list.begin() + static_cast<std::ptrdiff_t>(places_[index(rank)].next);
    const auto other = std::find(own, list.end(), weight);
    *(early ? own : other) = both;
    list.erase(early ? other : own);
    places[index(rank)].work +=
        cost_of(both, costs_) - cost_of(input, costs_) - cost_of(weight, costs_);
    const bool ends = try_rest(places);
    if (ends)
      places_ = std::move(places);
    else
      list = list_before;
    return ends;
  }

  // Whether all ranks come to their ends from these places, and not later than so far.
  bool try_rest(const std::vector<Place>& places) {
    const auto before = places_;
    places_ = places;
    trying_ = true;
    clocks_.mark();
    go_on();
    const double end = clocks_.latest_clock();
    bool ends = !late_ && end <= limit_;
    for (size_t rank = 0; rank < places_.size(); ++rank)
      ends = ends && places_[rank].next == schedule_.actions[rank].size();
    clocks_.turn_back();
    places_ = before;
    trying_ = late_ = false;
    if (ends)
      limit_ = end;
    return ends;
  }

  Schedule& schedule_;
  const Costs& costs_;
  RankClocks clocks_;
  std::vector<Place> places_;
  /// The makespan so far.
  double limit_;
  int64_t steps_;
  bool joined_ = false;
  /// Whether all of this will be turned back, and whether a rank cannot end in time.
  bool trying_ = false;
  bool late_ = false;
};

}  // namespace

double join_backwards(Schedule& schedule, const Costs& costs, int64_t most_steps) {
  // Once without trying anything, for the time.
  Joiner first(schedule, costs, std::numeric_limits<double>::infinity(), 0);
  first.run();
  double makespan = first.makespan();
  // One that is joined can make room for another.
  for (bool joined = true; joined && most_steps > 0;) {
    Joiner joiner(schedule, costs, makespan, most_steps);
    joined = joiner.run();
    makespan = joiner.makespan();
    most_steps = joiner.steps_left();
  }
  return makespan;
}

}  // namespace trireme::sched
