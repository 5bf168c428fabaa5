// Which actions decide how long a schedule takes.
#include <algorithm>
#include <cstdint>

#include "trireme/sched/simulate.h"

namespace trireme::sched {
namespace {

// Where each result was made: the place in its rank's timeline.
class Makers {
 public:
  Makers(const std::vector<std::vector<Timed>>& timeline, const Schedule& schedule)
      : microbatches_(static_cast<size_t>(schedule.microbatches)),
        forwards_(schedule.rank_of_stage.size() * microbatches_),
        inputs_(forwards_.size()) {
    for (const auto& list : timeline)
      for (size_t i = 0; i < list.size(); ++i)
        for_each_half(list[i].action, [&](const Action& half) {
          if (half.kind() == ActionKind::Forward)
            forwards_[place(half)] = i;
          else if (half.kind() != ActionKind::WeightGrad)
            inputs_[place(half)] = i;
        });
  }

  size_t find(bool forward, int stage, int microbatch) const {
    const Action action(ActionKind::Forward, stage, microbatch);
    return forward ? forwards_[place(action)] : inputs_[place(action)];
  }

 private:
  size_t place(const Action& action) const {
    return static_cast<size_t>(action.stage()) * microbatches_ +
           static_cast<size_t>(action.microbatch());
  }
  size_t microbatches_;
  std::vector<size_t> forwards_;
  std::vector<size_t> inputs_;
};

int awaited_microbatch(const Timed& timed) {
  const bool second =
      timed.action.kind() == ActionKind::Overlap && !timed.awaited_forward;
  return (second ? timed.action.backward_half() : timed.action).microbatch();
}

struct Spot {
  size_t rank = 0;
  size_t place = 0;
};

}  // namespace

std::vector<Timed> critical_path(
    const std::vector<std::vector<Timed>>& timeline, const Schedule& schedule) {
  const Makers makers(timeline, schedule);
  Spot at;
  double latest = -1;
  for (size_t rank = 0; rank < timeline.size(); ++rank)
    if (!timeline[rank].empty() && timeline[rank].back().end > latest) {
      latest = timeline[rank].back().end;
      at = {.rank = rank, .place = timeline[rank].size() - 1};
    }
  std::vector<Timed> path;
  for (bool more = latest >= 0; more;) {
    const Timed& now = timeline[at.rank][at.place];
    path.push_back(now);
    more = now.awaited >= 0 || at.place > 0;
    // The rank itself, if it had no pause; else what it waited for.
    if (now.awaited < 0)
      at.place -= more ? 1 : 0;
    else
      at = {
          .rank = static_cast<size_t>(schedule.owner(now.awaited)),
          .place =
              makers.find(now.awaited_forward, now.awaited, awaited_microbatch(now))};
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace trireme::sched
