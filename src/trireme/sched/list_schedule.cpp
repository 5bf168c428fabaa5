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
      : rules_(rules),
        model_(problem),
        partial_(model_.start()),
        choices_(partial_.clocks.size()) {}

  std::optional<Schedule> run() {
    for (int rank = 0; rank < static_cast<int>(choices_.size()); ++rank)
      choose(rank);
    for (size_t work = 0; work < model_.total_work();) {
      const auto move = choose();
      if (!move)
        return std::nullopt;
      work += work_of(move->action.kind());
      model_.carry_out(partial_, *move);
      // Only these have something new to choose from.
      choose(move->rank);
      const int stage = move->action.stage();
      const int other = move->action.kind() == Kind::Forward ? stage + 1 : stage - 1;
      if (other >= 0 && other < partial_.stages && model_.owner(other) != move->rank)
        choose(model_.owner(other));
    }
    return model_.schedule_of(partial_);
  }

 private:
  // Of what the ranks would take, what starts first.
  std::optional<Move> choose() const {
    std::optional<Move> first;
    for (const auto& move : choices_)
      if (move && (!first || move->start < first->start))
        first = move;
    return first;
  }

  // What a rank would take.
  void choose(int rank) {
    moves_.clear();
    model_.add_moves(partial_, rank, moves_);
    std::erase_if(moves_, [this](const Move& move) { return !allowed(move); });
    double next = std::numeric_limits<double>::infinity();
    for (const Move& move : moves_)
      if (move.action.kind() != Kind::WeightGrad)
        next = std::min(next, move.start);
    auto& best = choices_[index(rank)];
    best.reset();
    for (const Move& move : moves_)
      if (!must_wait(move, next) && (!best || is_better(move, *best)))
        best = move;
  }

  bool allowed(const Move& move) const {
    switch (move.action.kind()) {
      case Kind::Forward: {
        int open = 0;
        for (const int stage : model_.stages(move.rank))
          open += partial_.forwards(stage) - partial_.inputs(stage);
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

  const ListRules& rules_;
  const SearchModel model_;
  Partial partial_;
  /// By rank, if there is something.
  std::vector<std::optional<Move>> choices_;
  std::vector<Move> moves_;
};

}  // namespace

std::optional<Schedule> list_schedule(
    const SearchProblem& problem, const ListRules& rules) {
  return Builder(problem, rules).run();
}

}  // namespace trireme::sched
