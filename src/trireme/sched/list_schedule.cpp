#include "trireme/sched/list_schedule.h"

#include <algorithm>

#include "trireme/sched/index.h"
#include "trireme/sched/search_state.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

class Builder {
 public:
  Builder(const SearchProblem& problem, const ListRules& rules)
      : problem_(problem), rules_(rules), model_(problem), partial_(model_.start()) {}

  std::optional<Schedule> run() {
    for (size_t work = 0; work < model_.total_work();) {
      const auto move = choose();
      if (!move)
        return std::nullopt;
      work += work_of(move->action.kind());
      partial_ = model_.after(std::move(partial_), *move);
    }
    return model_.schedule_of(partial_);
  }

 private:
  // Of what the ranks would take, what starts first.
  std::optional<Move> choose() const {
    std::vector<std::optional<Move>> best(partial_.clocks.size());
    std::vector<double> next(best.size(), std::numeric_limits<double>::infinity());
    const auto all = model_.all_moves(partial_);
    for (const Move& move : all)
      if (allowed(move) && move.action.kind() != Kind::WeightGrad)
        next[index(move.rank)] = std::min(next[index(move.rank)], move.start);
    for (const Move& move : all)
      if (allowed(move) && !must_wait(move, next[index(move.rank)])) {
        auto& own = best[index(move.rank)];
        if (!own || is_better(move, *own))
          own = move;
      }
    std::optional<Move> first;
    for (const auto& move : best)
      if (move && (!first || move->start < first->start))
        first = move;
    return first;
  }

  bool allowed(const Move& move) const {
    switch (move.action.kind()) {
      case Kind::Forward: {
        int open = 0;
        for (const int stage : model_.stages(move.rank))
          open += partial_.forwards[index(stage)] - partial_.inputs[index(stage)];
        return open < rules_.caps[index(move.rank)];
      }
      case Kind::Backward:
        return !rules_.split;
      case Kind::InputGrad:
        return rules_.split;
      default:
        return true;
    }
  }

  // Whether it is better to wait for something that comes soon.
  bool must_wait(const Move& move, double next) const {
    return move.action.kind() == Kind::WeightGrad &&
           next < move.start + rules_.patience * (move.end - move.start);
  }

  int urgency(const Move& move) const {
    switch (move.action.kind()) {
      case Kind::Forward:
        return rules_.forward_first ? 2 : 1;
      case Kind::WeightGrad:
        return 0;
      default:
        return rules_.forward_first ? 1 : 2;
    }
  }

  // What can start first; of those that start together the most urgent, of the same
  // kind that of the later stage, which is nearer to its end.
  bool is_better(const Move& a, const Move& b) const {
    if (a.start != b.start)
      return a.start < b.start;
    if (urgency(a) != urgency(b))
      return urgency(a) > urgency(b);
    return a.action.kind() == Kind::Forward ? a.action.stage() > b.action.stage()
                                            : a.action.stage() < b.action.stage();
  }

  const SearchProblem& problem_;
  const ListRules& rules_;
  const SearchModel model_;
  Partial partial_;
};

}  // namespace

std::optional<Schedule> list_schedule(
    const SearchProblem& problem, const ListRules& rules) {
  return Builder(problem, rules).run();
}

}  // namespace trireme::sched
