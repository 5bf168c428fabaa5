// Partial schedules, and what can be added to them: the rules of search.cpp.
#pragma once
#include <memory>
#include <vector>

#include "trireme/sched/channels.h"
#include "trireme/sched/index.h"
#include "trireme/sched/search.h"

namespace trireme::sched {

/// Something that a rank could do next.
struct Move {
  Action action;
  int rank = 0;
  double start = 0;
  double end = 0;
};

/// An amount of work: a microbatch of a stage is 3, however its backward is done.
size_t work_of(ActionKind kind);

/// A schedule that is done up to a point. Microbatches keep their order on each stage,
/// so counts say what was done. It is copied very often: few vectors, each flat.
struct Partial {
  explicit Partial(int stages, int ranks, size_t channels);

  int stages = 0;
  /// By stage, one after another: F done; B or I done; I done whose W is not.
  std::vector<int> counts;
  int forwards(int stage) const { return counts[index(stage)]; }
  int inputs(int stage) const { return counts[index(stages + stage)]; }
  int pending(int stage) const { return counts[index(2 * stages + stage)]; }
  /// By rank: when it is free.
  std::vector<double> clocks;
  /// By channel: when it is free.
  std::vector<double> links;
  /// When what has come and was not used yet was there: of each stage the activations
  /// and then the gradients, oldest first. The counts say how many those are.
  std::vector<double> there;
  /// No way to the end takes less.
  double bound = 0;
  /// Backwards that were split.
  int splits = 0;

  /// The moves that led here, last first; partial schedules share their beginnings.
  struct Past {
    std::shared_ptr<Past> before;
    Move move;
    /// Ends a long past one by one, without recursion.
    ~Past();
  };
  std::shared_ptr<Past> past;

  /// The part of `there` with a stage's activations or gradients.
  struct Range {
    size_t first = 0;
    size_t last = 0;
  };
  Range waiting(int stage, bool forward) const;

  double end() const;
  /// For two with the same counts: whether this one is at least as early in everything.
  bool is_no_later_than(const Partial& other) const;
  /// Which one to look at first.
  bool is_better_than(const Partial& other) const;
};

/// The rules of one problem.
class SearchModel {
 public:
  explicit SearchModel(const SearchProblem& problem);

  /// Whether moves() leaves out nothing that could be the best: not if a weight
  /// gradient alone takes longer than a whole backward, and with several stages a rank
  /// not under a memory cap, nor if messages hold up one another.
  bool complete() const;
  size_t total_work() const;
  Partial start() const;
  /// What to try next: the computations of one rank, chosen so that no order is missed
  /// that could be the best.
  std::vector<Move> moves(const Partial& partial) const;
  /// All that could be next, on whatever rank; and what could be on one of them, at the
  /// end of `moves`.
  std::vector<Move> all_moves(const Partial& partial) const;
  void add_moves(const Partial& partial, int rank, std::vector<Move>& moves) const;
  Partial after(Partial partial, const Move& move) const;
  /// The same in place, without a new bound.
  void carry_out(Partial& partial, const Move& move) const;
  Schedule schedule_of(const Partial& done) const;
  const std::vector<int>& stages(int rank) const { return stages_[index(rank)]; }
  int owner(int stage) const { return skeleton_.owner(stage); }

 private:
  const StageCosts& costs(int stage) const { return problem_.costs.stage(stage); }
  void add_stage_moves(
      const Partial& partial, int stage, std::vector<Move>& moves) const;
  bool fits(const Partial& partial, int stage) const;
  void deliver(Partial& partial, const Move& move) const;
  /// The least time to the end, as far as what a rank still has to do tells.
  double bound(const Partial& partial, int rank) const;

  const SearchProblem& problem_;
  /// The pipeline without actions.
  Schedule skeleton_;
  ChannelMap channels_;
  std::vector<Link> links_;
  /// By rank: the channels that it sends on.
  std::vector<std::vector<size_t>> links_from_;
  std::vector<std::vector<int>> stages_;
  /// By stage: the least time from here to the end of a microbatch, behind this stage's
  /// forward or input gradient.
  std::vector<double> after_forward_;
  std::vector<double> after_input_;
};

}  // namespace trireme::sched
