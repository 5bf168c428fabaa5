#include "trireme/sched/auto.h"

#include <algorithm>
#include <optional>

#include "trireme/core/error.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/index.h"
#include "trireme/sched/join_backwards.h"
#include "trireme/sched/list_schedule.h"
#include "trireme/sched/lower.h"
#include "trireme/sched/plan.h"
#include "trireme/sched/simulate.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

[[noreturn]] void refuse(double memory_limit) {
  throw InvalidArgument(text(
      "[sched] expected a schedule that takes at most ",
      memory_limit,
      " bytes a rank, got none; raise the limit, or use smaller microbatches"));
}

class Chooser {
 public:
  explicit Chooser(const OrderProblem& problem)
      : problem_(problem),
        stages_(static_cast<int>(problem.rank_of_stage.size())),
        ranks_(count_ranks(problem.rank_of_stage)) {}

  /// Nothing if nothing fits.
  std::optional<AutoResult> run() {
    try_named();
    try_rules();
    if (!found_)
      return std::nullopt;
    best_.makespan = join_backwards(best_.schedule, problem_.costs, kMostJoinSteps);
    best_.schedule.name = "Auto";
    return std::move(best_);
  }

 private:
  // Keeps the schedule if it fits and is the fastest so far; gives its time.
  double consider(const Schedule& schedule, const std::string& origin) {
    const Simulation result = simulate(schedule, {.costs = problem_.costs});
    const double bytes =
        *std::max_element(result.peak_bytes.begin(), result.peak_bytes.end());
    if (bytes <= problem_.memory_limit &&
        (!found_ || result.makespan < best_.makespan)) {
      best_ = {.schedule = schedule, .makespan = result.makespan, .origin = origin};
      found_ = true;
    }
    return result.makespan;
  }

  // As it is, whose time it gives, and with neighbouring I and W in one.
  double consider_both(const Schedule& schedule, const std::string& origin) {
    const double time = consider(schedule, origin);
    Schedule joined = schedule;
    for (auto& list : joined.actions)
      list = merge_backwards(list);
    if (joined.actions != schedule.actions)
      consider(joined, origin);
    return time;
  }

  // The schedule of that name for this pipeline, if there is one.
  std::optional<Schedule> named(const ScheduleInfo& info) const {
    if (std::string_view(info.name) == "ForwardOnly" || stages_ % ranks_ != 0)
      return std::nullopt;
    try {
      Schedule schedule = generate(
          info.name,
          {.ranks = ranks_,
           .microbatches = problem_.microbatches,
           .stages_per_rank = stages_ / ranks_});
      if (schedule.rank_of_stage == problem_.rank_of_stage)
        return schedule;
    } catch (const InvalidArgument&) {
      // It does not exist in this size.
    }
    return std::nullopt;
  }

  void try_named() {
    for (const ScheduleInfo& info : all_schedules())
      if (const auto schedule = named(info))
        consider_both(*schedule, info.name);
  }

  double try_rules(const ListRules& rules) {
    const auto schedule = list_schedule(problem_, rules);
    if (!schedule)
      return std::numeric_limits<double>::infinity();
    return consider_both(*schedule, "rules");
  }

  // Rules from coarse to fine: all combinations with three shapes of caps, then the
  // best one's caps, rank by rank.
  void try_rules() {
    ListRules best;
    double fastest = std::numeric_limits<double>::infinity();
    int64_t left = tries(kRulesBudget, int64_t{stages_} * stages_);
    const auto attempt = [&](const ListRules& rules) {
      if (left-- <= 0)
        return false;
      const double time = try_rules(rules);
      if (time >= fastest)
        return false;
      fastest = time;
      best = rules;
      return true;
    };
    const int V = (stages_ + ranks_ - 1) / ranks_;
    for (const bool forward_first : {false, true})
      for (const bool split : {true, false})
        for (const double patience : {0.0, 0.3, 0.7, 1.0})
          for (const int shape : {0, 1, 2}) {
            ListRules rules{
                .caps = {},
                .forward_first = forward_first,
                .split = split,
                .patience = patience};
            for (int rank = 0; rank < ranks_; ++rank) {
              const int from_here = ranks_ - rank;
              rules.caps.push_back(
                  V * (shape == 0   ? from_here
                       : shape == 1 ? 2 * from_here - 1
                                    : 2 * ranks_));
            }
            attempt(rules);
          }
    constexpr int kMostRounds = 3;
    for (int round = 0; round < kMostRounds && !best.caps.empty(); ++round) {
      bool better = false;
      for (int rank = 0; rank < ranks_; ++rank)
        for (const int change : {-2, -1, 1, 2}) {
          ListRules rules = best;
          rules.caps[index(rank)] = std::max(1, rules.caps[index(rank)] + change);
          better = attempt(rules) || better;
        }
      if (!better)
        break;
    }
  }

  // How often something can be tried that takes so much a microbatch.
  int64_t tries(int64_t budget, int64_t work) const {
    return budget / (work * problem_.microbatches);
  }

  // About a second.
  static constexpr int64_t kRulesBudget = 40'000'000;
  static constexpr int64_t kMostJoinSteps = 20'000'000;

  const OrderProblem& problem_;
  int stages_;
  int ranks_;
  bool found_ = false;
  AutoResult best_;
};

}  // namespace

std::optional<AutoResult> find_auto(const OrderProblem& problem) {
  check_problem(problem);
  return Chooser(problem).run();
}

AutoResult make_auto(const OrderProblem& problem) {
  auto result = find_auto(problem);
  if (!result)
    refuse(problem.memory_limit);
  return std::move(*result);
}

AutoResult make_auto(
    const ScheduleSize& size, const CostFile& costs, double memory_limit) {
  const int64_t V = size.stages_per_rank == 0 ? 1 : size.stages_per_rank;
  constexpr int64_t kMost = 1 << 20;
  if (size.ranks < 1 || V < 1 || V * size.ranks > kMost)
    throw InvalidArgument(text(
        "[sched] expected at least one rank and one stage a rank, and up to ",
        kMost,
        " stages, got ",
        size.ranks,
        " ranks with ",
        V,
        "; change the number of ranks or of stages a rank"));
  std::optional<AutoResult> best;
  for (const StageMap map : {StageMap::Loop, StageMap::V}) {
    if (map == StageMap::V && V == 1)
      continue;
    const auto owners = map_stages(map, size.ranks, static_cast<int>(V * size.ranks));
    auto result = find_auto(
        {.rank_of_stage = owners,
         .microbatches = size.microbatches,
         .costs = stage_costs(costs, owners),
         .memory_limit = memory_limit});
    if (result && (!best || result->makespan < best->makespan))
      best = std::move(result);
  }
  if (!best)
    refuse(memory_limit);
  return std::move(*best);
}

}  // namespace trireme::sched
