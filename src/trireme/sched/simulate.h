// How long a schedule takes, where the time goes, and how much memory it needs.
#pragma once
#include <vector>

#include "trireme/sched/costs.h"
#include "trireme/sched/rank_clocks.h"
#include "trireme/sched/schedule.h"

namespace trireme::sched {

/// An action with its time.
struct Timed {
  Action action;
  double start = 0;
  double end = 0;
  /// The stage whose result the rank waited for, or -1 if it did not; and whether that
  /// was an activation.
  int awaited = -1;
  bool awaited_forward = true;
};

/// What a schedule comes to.
struct Simulation {
  /// From the first start to the last end.
  double makespan = 0;
  /// The work of the rank that has most: no order can take less.
  double ideal = 0;
  /// makespan - ideal: what a step pays that ends with all ranks together.
  double wall_bubble = 0;
  /// The longest time from a rank's own first start to its last end, less ideal: what
  /// is left if ranks may run into the next step.
  double span_bubble = 0;
  /// The work of each rank, and the rest of the makespan.
  std::vector<double> busy;
  std::vector<double> idle;
  /// Live (stage, microbatch) pairs from F to the end of B or W (in evaluation, which
  /// has no backwards, during F alone), and the same in bytes with the weights.
  std::vector<int64_t> peak_activations;
  std::vector<double> peak_bytes;
  /// The computations of each rank in time; empty unless asked for.
  std::vector<std::vector<Timed>> timeline;
  /// All messages of a lowered schedule, those of each channel in order; empty unless
  /// asked for.
  std::vector<Message> messages;
  /// The actions that decide the makespan, first to last; empty unless asked for.
  std::vector<Timed> critical_path;
};

/// The chain of actions that ends last, found from the timeline: each starts when the
/// one before it on the chain has ended, or its message has come.
std::vector<Timed> critical_path(
    const std::vector<std::vector<Timed>>& timeline, const Schedule& schedule);

struct SimulateOptions {
  Costs costs;
  /// Fill timeline, messages and critical_path, which take memory.
  bool details = false;
};

/// Runs a schedule, compute-only or lowered, in time. A rank carries out its
/// computations in order, each as soon as its inputs are there; messages travel while
/// it computes on, one after another on each link. An OVERLAP_F_B is one action: it
/// starts when both its inputs are there, and its results appear at its end.
/// InvalidArgument if the schedule is not valid or can never end.
///
///     simulate(generate("1F1B", {.ranks = 4, .microbatches = 8}), {}).wall_bubble;
Simulation simulate(const Schedule& schedule, const SimulateOptions& options);

}  // namespace trireme::sched
