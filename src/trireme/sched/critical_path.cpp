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

struct Spot {
  size_t rank = 0;
  size_t place = 0;
};

}  // namespace

std::vector<Timed> critical_path(
    const std::vector<std::vector<Timed>>& timeline, const Schedule& schedule) {
  const Makers makers(timeline, schedule);
  const StageGraph graph(schedule);
  Spot at;
  double latest = -1;
  for (size_t rank = 0; rank < timeline.size(); ++rank)
    if (!timeline[rank].empty() && timeline[rank].back().end > latest) {
      latest = timeline[rank].back().end;
      at = {.rank = rank, .place = timeline[rank].size() - 1};
    }
  std::vector<Timed> path;
  while (latest >= 0) {
    const Timed& now = timeline[at.rank][at.place];
    path.push_back(now);
    // The rank itself, if it had no pause; else the input that came last.
    if (at.place > 0 && timeline[at.rank][at.place - 1].end == now.start) {
      --at.place;
      continue;
    }
    latest = -1;
    for_each_half(now.action, [&](const Action& half) {
      const bool forward = half.kind() == ActionKind::Forward;
      if (half.kind() == ActionKind::WeightGrad)
        return;
      const auto& sources =
          forward ? graph.before(half.stage()) : graph.after(half.stage());
      for (const int stage : sources) {
        const auto rank = static_cast<size_t>(schedule.owner(stage));
        const size_t place = makers.find(forward, stage, half.microbatch());
        const double end = timeline[rank][place].end;
        if (end <= now.start && end > latest) {
          latest = end;
          at = {.rank = rank, .place = place};
        }
      }
    });
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace trireme::sched
