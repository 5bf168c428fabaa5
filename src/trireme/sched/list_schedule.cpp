#include "trireme/sched/list_schedule.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "trireme/core/error.h"
#include "trireme/sched/index.h"
#include "trireme/sched/rank_clocks.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

/// Something that a rank could do next.
struct Move {
  Action action;
  int rank = 0;
  double start = 0;
  double end = 0;
};

/// What a stage has done; its microbatches keep their order.
struct StageProgress {
  int forwards = 0;
  int input_grads = 0;
  /// Microbatches whose weight gradients are still to be computed.
  std::deque<int> open_weights{};

  /// Forwards whose backward has not begun, and activations that are still held.
  int open() const { return forwards - input_grads; }
  int held() const { return open() + static_cast<int>(open_weights.size()); }
};

const OrderProblem& checked(const OrderProblem& problem) {
  check_problem(problem);
  return problem;
}

class Builder {
 public:
  Builder(const OrderProblem& problem, const ListRules& rules)
      : problem_(checked(problem)),
        rules_(rules),
        result_{
            .name = "Auto",
            .microbatches = problem.microbatches,
            .rank_of_stage = problem.rank_of_stage,
            .extra_edges = {},
            .actions = std::vector<std::vector<Action>>(
                index(count_ranks(problem.rank_of_stage)))},
        clocks_(result_, problem.costs),
        progress_(problem.rank_of_stage.size()),
        stages_of_rank_(result_.actions.size()),
        choices_(result_.actions.size()) {
    for (int stage = 0; stage < result_.stages(); ++stage)
      stages_of_rank_[index(result_.owner(stage))].push_back(stage);
  }

  std::optional<Schedule> run() {
    for (int rank = 0; rank < result_.ranks(); ++rank)
      choose(rank);
    // A microbatch of a stage is F, I and W, or F and B.
    size_t left = 3 * progress_.size() * index(problem_.microbatches);
    while (left > 0) {
      const auto move = choose();
      if (!move)
        return std::nullopt;
      left -= move->action.kind() == Kind::Backward ? 2U : 1U;
      carry_out(*move);
    }
    return std::move(result_);
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
    int open = 0;
    for (const int stage : stages_of_rank_[index(rank)])
      open += progress_[index(stage)].open();
    const bool may_open = open < rules_.caps[index(rank)];
    for (const int stage : stages_of_rank_[index(rank)])
      add_moves(stage, may_open);
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

  void add_moves(int stage, bool may_open) {
    const StageProgress& done = progress_[index(stage)];
    if (may_open && done.forwards < problem_.microbatches && fits(stage))
      add_move({Kind::Forward, stage, done.forwards});
    if (done.open() > 0)
      add_move(
          {rules_.split ? Kind::InputGrad : Kind::Backward, stage, done.input_grads});
    if (!done.open_weights.empty())
      add_move({Kind::WeightGrad, stage, done.open_weights.front()});
  }

  // Unless something that it needs has not even been sent.
  void add_move(const Action& action) {
    const double there = clocks_.inputs_there(action);
    if (there == RankClocks::kNotYet)
      return;
    const int rank = result_.owner(action.stage());
    const double start = std::max(clocks_.clock(rank), there);
    moves_.push_back(
        {.action = action,
         .rank = rank,
         .start = start,
         .end = start + cost_of(action, problem_.costs)});
  }

  // Whether there is room for one more activation of a stage.
  bool fits(int stage) const {
    if (problem_.memory_limit == std::numeric_limits<double>::infinity())
      return true;
    double bytes = problem_.costs.stage(stage).activation_bytes;
    for (const int own : stages_of_rank_[index(result_.owner(stage))]) {
      const StageCosts& costs = problem_.costs.stage(own);
      bytes +=
          costs.weight_bytes + costs.activation_bytes * progress_[index(own)].held();
    }
    return bytes <= problem_.memory_limit;
  }

  void carry_out(const Move& move) {
    const Action& action = move.action;
    StageProgress& done = progress_[index(action.stage())];
    if (action.kind() == Kind::Forward)
      ++done.forwards;
    else if (action.kind() == Kind::WeightGrad)
      done.open_weights.pop_front();
    else
      ++done.input_grads;
    if (action.kind() == Kind::InputGrad)
      done.open_weights.push_back(action.microbatch());
    clocks_.carry_out(
        move.rank, action, move.start, move.end - move.start, [](const Message&) {});
    result_.actions[index(move.rank)].push_back(action);
    // Only these have something new to choose from.
    const int other = action.stage() + (action.kind() == Kind::Forward ? 1 : -1);
    const int rank = move.rank;
    choose(rank);
    if (other >= 0 && other < result_.stages() && result_.owner(other) != rank)
      choose(result_.owner(other));
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

  const OrderProblem& problem_;
  const ListRules& rules_;
  Schedule result_;
  RankClocks clocks_;
  std::vector<StageProgress> progress_;
  std::vector<std::vector<int>> stages_of_rank_;
  /// By rank, if there is something.
  std::vector<std::optional<Move>> choices_;
  std::vector<Move> moves_;
};

}  // namespace

void check_problem(const OrderProblem& problem) {
  const auto& owners = problem.rank_of_stage;
  const auto stages = static_cast<int64_t>(owners.size());
  if (stages == 0 || problem.microbatches < 1)
    throw InvalidArgument(text(
        "[sched] expected at least one stage and one microbatch, got ",
        stages,
        " and ",
        problem.microbatches,
        "; give at least 1 of each"));
  constexpr int64_t kMost = 1 << 20;
  if (stages * problem.microbatches > kMost)
    throw InvalidArgument(text(
        "[sched] expected stages x microbatches up to ",
        kMost,
        " to put into order, got ",
        stages * problem.microbatches,
        "; take a schedule with a name"));
  for (const int rank : owners)
    if (rank < 0 || rank >= stages)
      throw InvalidArgument(text(
          "[sched] expected stages on ranks 0 to ",
          stages - 1,
          ", got rank ",
          rank,
          "; correct rank_of_stage"));
  check_costs(problem.costs, static_cast<int>(stages), count_ranks(owners));
  if (std::isnan(problem.memory_limit) || problem.memory_limit < 0)
    throw InvalidArgument(text(
        "[sched] expected a memory limit of at least 0 bytes, got ",
        problem.memory_limit,
        "; give a number from 0, or infinity for none"));
}

std::optional<Schedule> list_schedule(
    const OrderProblem& problem, const ListRules& rules) {
  return Builder(problem, rules).run();
}

}  // namespace trireme::sched
