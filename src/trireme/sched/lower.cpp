#include "trireme/sched/lower.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "trireme/core/error.h"
#include "trireme/sched/validate.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

constexpr size_t kNever = std::numeric_limits<size_t>::max();

// When each stage of a list is used next, as the walk through the list goes on.
class NextUses {
 public:
  explicit NextUses(const std::vector<Action>& list) {
    for (size_t i = list.size(); i-- > 0;)
      for_each_half(
          list[i], [&](const Action& half) { uses_[half.stage()].push_back(i); });
    for (const auto& [stage, places] : uses_)
      order_.insert({places.back(), stage});
  }

  /// Forgets the uses at place i.
  void pass(size_t i, const Action& action) {
    for_each_half(action, [&](const Action& half) {
      auto& places = uses_[half.stage()];
      if (places.empty() || places.back() != i)
        return;  // both halves are of one stage
      order_.erase({i, half.stage()});
      while (!places.empty() && places.back() == i)
        places.pop_back();
      if (!places.empty())
        order_.insert({places.back(), half.stage()});
    });
  }

  /// The first `most` stages that come, in order; more if one action needs them.
  void window(int most, std::vector<int>& stages) const {
    stages.clear();
    size_t last = kNever;
    for (const auto& [place, stage] : order_) {
      if (static_cast<int>(stages.size()) >= most && place != last)
        return;
      stages.push_back(stage);
      last = place;
    }
  }

 private:
  std::map<int, std::vector<size_t>> uses_;  // last first
  std::set<std::pair<size_t, int>> order_;
};

bool contains(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

bool belong_together(const Action& input, const Action& weight) {
  return input.kind() == Kind::InputGrad && weight.kind() == Kind::WeightGrad &&
         input.stage() == weight.stage() && input.microbatch() == weight.microbatch();
}

}  // namespace

std::vector<Action> without_bubbles(const std::vector<Action>& list) {
  std::vector<Action> out;
  out.reserve(list.size());
  std::copy_if(
      list.begin(), list.end(), std::back_inserter(out), [](const Action& action) {
        return action.kind() != Kind::Bubble;
      });
  return out;
}

std::vector<Action> merge_backwards(const std::vector<Action>& list) {
  std::vector<Action> out;
  out.reserve(list.size());
  for (size_t i = 0; i < list.size(); ++i) {
    const bool pair = i + 1 < list.size() && belong_together(list[i], list[i + 1]);
    out.push_back(
        pair ? Action(Kind::Backward, list[i].stage(), list[i].microbatch()) : list[i]);
    i += pair ? 1 : 0;
  }
  return out;
}

std::vector<Action> add_sharding(
    const std::vector<Action>& list, int max_active_stages) {
  std::vector<Action> out;
  out.reserve(list.size() + 16);
  NextUses uses(list);
  std::vector<int> window, active;
  for (size_t i = 0; i < list.size(); ++i) {
    uses.window(max_active_stages, window);
    for (const int stage : active)
      if (!contains(window, stage))
        out.emplace_back(Kind::Reshard, stage);
    std::erase_if(active, [&](int stage) { return !contains(window, stage); });
    for (const int stage : window)
      if (!contains(active, stage)) {
        out.emplace_back(Kind::Unshard, stage);
        active.insert(std::lower_bound(active.begin(), active.end(), stage), stage);
      }
    out.push_back(list[i]);
    uses.pass(i, list[i]);
  }
  for (const int stage : active)
    out.emplace_back(Kind::Reshard, stage);
  return out;
}

std::vector<Action> add_reduce_grad(const std::vector<Action>& list, int microbatches) {
  std::vector<Action> out;
  out.reserve(list.size() + 16);
  std::map<int, int> backwards;
  for (const Action& action : list) {
    out.push_back(action);
    for_each_half(action, [&](const Action& half) {
      const bool counts = gives_weight_grad(half.kind());
      if (counts && ++backwards[half.stage()] == microbatches)
        out.emplace_back(Kind::ReduceGrad, half.stage());
    });
  }
  return out;
}

Schedule lower(const Schedule& schedule, const LowerOptions& options) {
  if (schedule.lowered)
    throw InvalidArgument(
        "[sched] expected a compute-only schedule to lower, got one that has sends and "
        "receives already; lower it only once");
  if (options.max_active_stages < 1)
    throw InvalidArgument(text(
        "[sched] expected max_active_stages of at least 1, got ",
        options.max_active_stages,
        "; give a number above 0"));
  validate(schedule);
  Schedule out = schedule;
  for (auto& list : out.actions) {
    list = without_bubbles(list);
    if (options.merge_backwards)
      list = merge_backwards(list);
    if (options.sharding)
      list = add_reduce_grad(
          add_sharding(list, options.max_active_stages), out.microbatches);
  }
  out = add_messages(out);
  return options.late_receives ? defer_receives(out) : out;
}

}  // namespace trireme::sched
