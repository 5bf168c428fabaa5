#include "trireme/sched/rank_clocks.h"

namespace trireme::sched {

RankClocks::RankClocks(const Schedule& schedule, const Costs& costs)
    : schedule_(schedule),
      costs_(costs),
      graph_(schedule),
      channels_(schedule),
      links_(links_of(channels_, costs)),
      clocks_(schedule.actions.size()),
      free_(links_.size()),
      forward_inputs_(index(schedule.stages()) * index(schedule.microbatches)),
      backward_inputs_(forward_inputs_.size()) {
  for (int stage = 0; stage < schedule.stages(); ++stage)
    for (int m = 0; m < schedule.microbatches; ++m) {
      forward_inputs_[place(stage, m)].missing =
          static_cast<int>(graph_.before(stage).size());
      backward_inputs_[place(stage, m)].missing =
          static_cast<int>(graph_.after(stage).size());
    }
}

void RankClocks::mark() {
  marked_ = true;
  marked_clocks_ = clocks_;
  marked_free_ = free_;
  changes_.clear();
}

void RankClocks::turn_back() {
  clocks_ = marked_clocks_;
  free_ = marked_free_;
  // The first change of several holds what was at the mark, so it has to be the last.
  for (auto change = changes_.rbegin(); change != changes_.rend(); ++change)
    *change->inputs = change->before;
  changes_.clear();
  marked_ = false;
}

}  // namespace trireme::sched
