// From what is computed to what ranks carry out: sends, receives, and the gathering of
// sharded parameters.
#pragma once
#include "trireme/sched/schedule.h"

namespace trireme::sched {

struct LowerOptions {
  /// Adds UNSHARD, RESHARD and REDUCE_GRAD, which mean nothing where no stage is
  /// sharded.
  bool sharding = true;
  /// How many stages of a rank are unsharded at once, as far as single actions allow.
  int max_active_stages = 3;
  /// Makes one B of an I that is followed by its W.
  bool merge_backwards = false;
  /// Puts each RECV right before the action that needs it, as far as the order of its
  /// channel allows. Otherwise it stands where its message is sent, so that even
  /// unbuffered channels cannot lock up; but for those of extra edges, whose messages
  /// wait for the last one that the stage needs.
  bool late_receives = false;
};

/// The lowered schedule: torch's, for these defaults. InvalidArgument if the schedule
/// is not valid, or if its ranks wait for one another in a cycle whatever the buffers.
///
///     Schedule program = lower(generate("1F1B", {.ranks = 2, .microbatches = 4}));
Schedule lower(const Schedule& schedule, const LowerOptions& options = {});

/// The passes by themselves; each takes one rank's list without bubbles.
std::vector<Action> without_bubbles(const std::vector<Action>& list);
std::vector<Action> merge_backwards(const std::vector<Action>& list);
std::vector<Action> add_sharding(
    const std::vector<Action>& list, int max_active_stages);
std::vector<Action> add_reduce_grad(const std::vector<Action>& list, int microbatches);

/// These need all ranks.
Schedule add_messages(const Schedule& schedule);
Schedule defer_receives(const Schedule& schedule);

}  // namespace trireme::sched
