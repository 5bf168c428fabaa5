#include "trireme/sched/search_state.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <numeric>

#include "trireme/core/error.h"
#include "trireme/sched/index.h"

namespace trireme::sched {
namespace {

using Kind = ActionKind;

bool none_later(const std::vector<double>& a, const std::vector<double>& b) {
  return std::equal(
      a.begin(), a.end(), b.begin(), [](double x, double y) { return x <= y; });
}

// The least that the gradient of the input can take, and the whole backward.
double least_input(const StageCosts& costs) {
  return std::min(costs.backward, costs.input_grad);
}
double least_backward(const StageCosts& costs) {
  return std::min(costs.backward, costs.input_grad + costs.weight_grad);
}

const SearchProblem& checked(const SearchProblem& problem) {
  check_problem(problem);
  return problem;
}

}  // namespace

size_t work_of(ActionKind kind) {
  return kind == Kind::Backward ? 2 : 1;
}

Partial::Partial(int stage_count, int ranks, size_t channels)
    : stages(stage_count),
      counts(index(3 * stage_count)),
      clocks(index(ranks)),
      links(channels) {}

Partial::Range Partial::waiting(int stage, bool forward) const {
  // Of a stage there are as many activations as the one before has done more forwards,
  // and as many gradients as the one behind has done more of those. Most of the sums
  // over all stages before this one cancel out.
  const int before =
      (stage == 0 ? 0 : forwards(0) - forwards(stage - 1)) + inputs(stage) - inputs(0);
  const int activations = stage == 0 ? 0 : forwards(stage - 1) - forwards(stage);
  if (forward)
    return {index(before), index(before + activations)};
  const int gradients = stage == stages - 1 ? 0 : inputs(stage + 1) - inputs(stage);
  return {index(before + activations), index(before + activations + gradients)};
}

double Partial::end() const {
  return *std::max_element(clocks.begin(), clocks.end());
}

bool Partial::is_no_later_than(const Partial& other) const {
  return none_later(clocks, other.clocks) && none_later(links, other.links) &&
         none_later(there, other.there);
}

bool Partial::is_better_than(const Partial& other) const {
  if (bound != other.bound)
    return bound < other.bound;
  const double sum = std::accumulate(clocks.begin(), clocks.end(), 0.0);
  const double other_sum =
      std::accumulate(other.clocks.begin(), other.clocks.end(), 0.0);
  if (sum != other_sum)
    return sum < other_sum;
  return splits < other.splits;
}

Partial::Past::~Past() {
  while (before && before.use_count() == 1)
    before = std::shared_ptr<Past>(std::move(before->before));
}

SearchModel::SearchModel(const SearchProblem& problem)
    : problem_(checked(problem)),
      skeleton_{
          .name = "Auto",
          .microbatches = problem.microbatches,
          .rank_of_stage = problem.rank_of_stage,
          .extra_edges = {},
          .actions = std::vector<std::vector<Action>>(
              index(count_ranks(problem.rank_of_stage)))},
      channels_(skeleton_),
      links_(links_of(channels_, problem.costs)),
      links_from_(skeleton_.actions.size()),
      stages_(skeleton_.actions.size()),
      after_forward_(problem.rank_of_stage.size()),
      after_input_(after_forward_) {
  for (size_t i = 0; i < links_.size(); ++i)
    links_from_[index(channels_.channels()[i].from)].push_back(i);
  const int stages = skeleton_.stages();
  for (int stage = 0; stage < stages; ++stage)
    stages_[index(owner(stage))].push_back(stage);
  // Of stage 0 the whole backward counts; of the others only what the next one needs.
  for (int stage = 1; stage < stages; ++stage)
    after_input_[index(stage)] =
        stage == 1 ? least_backward(costs(0))
                   : after_input_[index(stage - 1)] + least_input(costs(stage - 1));
  for (int stage = stages - 1; stage >= 0; --stage)
    after_forward_[index(stage)] =
        stage == stages - 1
            ? (stage == 0 ? least_backward(costs(0))
                          : least_input(costs(stage)) + after_input_[index(stage)])
            : costs(stage + 1).forward + after_forward_[index(stage + 1)];
}

bool SearchModel::complete() const {
  const bool one_stage_each = std::all_of(
      stages_.begin(), stages_.end(), [](const auto& own) { return own.size() <= 1; });
  const bool at_once =
      problem_.costs.message_bytes == 0 ||
      std::all_of(links_.begin(), links_.end(), [](const Link& link) {
        return link.bandwidth == std::numeric_limits<double>::infinity();
      });
  const bool capped = problem_.memory_limit != std::numeric_limits<double>::infinity();
  const auto& all = problem_.costs.stages;
  return (one_stage_each || (at_once && !capped)) &&
         std::all_of(all.begin(), all.end(), [](const StageCosts& stage) {
           return stage.weight_grad <= stage.backward;
         });
}

size_t SearchModel::total_work() const {
  return 3 * index(skeleton_.stages()) * index(skeleton_.microbatches);
}

Partial SearchModel::start() const {
  Partial partial(skeleton_.stages(), skeleton_.ranks(), links_.size());
  for (int rank = 0; rank < skeleton_.ranks(); ++rank)
    partial.bound = std::max(partial.bound, bound(partial, rank));
  return partial;
}

bool SearchModel::fits(const Partial& partial, int stage) const {
  if (problem_.memory_limit == std::numeric_limits<double>::infinity())
    return true;
  double bytes = costs(stage).activation_bytes;
  for (const int own : stages_[index(owner(stage))]) {
    const int done = partial.inputs(own) - partial.pending(own);
    bytes += costs(own).weight_bytes +
             costs(own).activation_bytes * (partial.forwards(own) - done);
  }
  return bytes <= problem_.memory_limit;
}

void SearchModel::add_stage_moves(
    const Partial& partial, int stage, std::vector<Move>& moves) const {
  const int rank = owner(stage);
  const double clock = partial.clocks[index(rank)];
  const auto add = [&](Kind kind, int microbatch, double there) {
    const Action action(kind, stage, microbatch);
    const double start = std::max(clock, there);
    moves.push_back(
        {.action = action,
         .rank = rank,
         .start = start,
         .end = start + cost_of(action, problem_.costs)});
  };
  const int f = partial.forwards(stage), b = partial.inputs(stage);
  const auto activations = partial.waiting(stage, true);
  const auto gradients = partial.waiting(stage, false);
  if (f < skeleton_.microbatches &&
      (stage == 0 || activations.first < activations.last) && fits(partial, stage))
    add(Kind::Forward, f, stage == 0 ? 0 : partial.there[activations.first]);
  const bool last = stage + 1 == skeleton_.stages();
  if (b < f && (last || gradients.first < gradients.last)) {
    const double there = last ? 0 : partial.there[gradients.first];
    add(Kind::Backward, b, there);
    add(Kind::InputGrad, b, there);
  }
  if (partial.pending(stage) > 0)
    add(Kind::WeightGrad, 0, 0);  // which one it is shows in schedule_of()
}

void SearchModel::add_moves(
    const Partial& partial, int rank, std::vector<Move>& moves) const {
  for (const int stage : stages(rank))
    add_stage_moves(partial, stage, moves);
}

std::vector<Move> SearchModel::all_moves(const Partial& partial) const {
  std::vector<Move> all;
  all.reserve(index(4 * skeleton_.stages()));
  for (int stage = 0; stage < skeleton_.stages(); ++stage)
    add_stage_moves(partial, stage, all);
  return all;
}

std::vector<Move> SearchModel::moves(const Partial& partial) const {
  std::vector<Move> all = all_moves(partial);
  // The one that could end first decides. Nothing that starts after its end is worth
  // waiting for, since it fits in between: an I too, for then the place of its B has
  // room for its W.
  double first_end = std::numeric_limits<double>::infinity();
  int rank = -1;
  for (const Move& move : all)
    if (move.end < first_end) {
      first_end = move.end;
      rank = move.rank;
    }
  // Under a cap it may pay to wait: what is taken now can keep something else out.
  const bool capped =
      problem_.memory_limit != std::numeric_limits<double>::infinity() && rank >= 0 &&
      stages_[index(rank)].size() > 1;
  std::erase_if(all, [&](const Move& move) {
    return move.rank != rank ||
           (!capped && move.start >= first_end && move.end > first_end);
  });
  return all;
}

// The neighbour gets what the move has made, and counts it already.
void SearchModel::deliver(Partial& partial, const Move& move) const {
  const int stage = move.action.stage();
  const bool forward = move.action.kind() == Kind::Forward;
  const int other = forward ? stage + 1 : stage - 1;
  if (other < 0 || other >= skeleton_.stages())
    return;
  const Kind send = forward ? Kind::SendForward : Kind::SendBackward;
  double time = move.end;
  for (const auto& use : channels_.uses({send, stage, 0})) {
    double& free = partial.links[index(use.channel)];
    const Link& link = links_[index(use.channel)];
    free = std::max(free, move.end) + problem_.costs.message_bytes / link.bandwidth;
    time = free + link.latency;
  }
  const size_t last = partial.waiting(other, forward).last - 1;
  partial.there.insert(partial.there.begin() + static_cast<std::ptrdiff_t>(last), time);
}

void SearchModel::carry_out(Partial& partial, const Move& move) const {
  const int stage = move.action.stage(), stages = partial.stages;
  const bool forward = move.action.kind() == Kind::Forward;
  int& pending = partial.counts[index(2 * stages + stage)];
  if (move.action.kind() == Kind::WeightGrad) {
    --pending;
  } else {
    const auto used = partial.waiting(stage, forward);
    if (used.first < used.last)
      partial.there.erase(
          partial.there.begin() + static_cast<std::ptrdiff_t>(used.first));
    ++partial.counts[index(forward ? stage : stages + stage)];
    deliver(partial, move);
  }
  if (move.action.kind() == Kind::InputGrad) {
    ++pending;
    ++partial.splits;
  }
  partial.clocks[index(move.rank)] = move.end;
  // A link that is free before its sender is, is as good as free now.
  for (const size_t link : links_from_[index(move.rank)])
    partial.links[link] = std::max(partial.links[link], move.end);
  auto past = std::make_shared<Partial::Past>();
  past->before = std::move(partial.past);
  past->move = move;
  partial.past = std::move(past);
}

Partial SearchModel::after(Partial next, const Move& move) const {
  carry_out(next, move);
  // No way takes less than what could be told before. The other ranks' parts in it are
  // what they were.
  next.bound = std::max(next.bound, bound(next, move.rank));
  return next;
}

double SearchModel::bound(const Partial& partial, int rank) const {
  const int M = skeleton_.microbatches;
  double forwards = 0, inputs = 0, backwards = 0;
  for (const int stage : stages(rank)) {
    const StageCosts& own = costs(stage);
    forwards += own.forward * (M - partial.forwards(stage));
    inputs += least_input(own) * (M - partial.inputs(stage));
    backwards += least_backward(own) * (M - partial.inputs(stage)) +
                 own.weight_grad * partial.pending(stage);
  }
  const double clock = partial.clocks[index(rank)];
  double least = clock + forwards + backwards;
  // Behind the last input gradient of this rank, other stages have theirs to do.
  for (const int stage : stages(rank)) {
    if (partial.inputs(stage) < M)
      least = std::max(
          least,
          clock + forwards + inputs +
              (stages(rank).size() == 1 ? after_input_[index(stage)] : 0));
    if (partial.forwards(stage) < M)
      least = std::max(
          least,
          clock + costs(stage).forward * (M - partial.forwards(stage)) +
              after_forward_[index(stage)]);
  }
  return least;
}

Schedule SearchModel::schedule_of(const Partial& done) const {
  std::vector<Move> moves;
  for (const Partial::Past* past = done.past.get(); past != nullptr;
       past = past->before.get())
    moves.push_back(past->move);
  Schedule schedule = skeleton_;
  std::vector<std::deque<int>> waiting(index(skeleton_.stages()));
  for (auto move = moves.rbegin(); move != moves.rend(); ++move) {
    Action action = move->action;
    auto& queue = waiting[index(action.stage())];
    if (action.kind() == Kind::InputGrad)
      queue.push_back(action.microbatch());
    if (action.kind() == Kind::WeightGrad) {
      action = Action(Kind::WeightGrad, action.stage(), queue.front());
      queue.pop_front();
    }
    schedule.actions[index(move->rank)].push_back(action);
  }
  return schedule;
}

}  // namespace trireme::sched
