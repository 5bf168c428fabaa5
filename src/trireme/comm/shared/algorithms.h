// Collectives over shared memory, written as steps of a group.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "trireme/comm/collective.h"
#include "trireme/comm/per_rank.h"
#include "trireme/comm/shared/group_steps.h"

namespace trireme::comm {

/// all_reduce, reduce and reduce_scatter. The caller has called steps.begin().
void run_reduction(GroupSteps& steps, const Collective& call);

/// A reduce with call.fold: one host's part of a reduction over several.
void run_fold(GroupSteps& steps, const Collective& call);
/// The same for a group of one.
void fold_alone(const Collective& call);

/// Everything that only moves bytes: broadcast, gather, scatter, all_gather,
/// all_to_all.
void run_move(GroupSteps& steps, const Collective& call);

/// Up to here data is staged before the ranks meet for the first time: one step in all.
size_t small_bytes(const GroupSteps& steps);

/// Where a rank's data lies, as it tells its peers: offsets in the shared memory.
struct Place {
  uint64_t input = 0;
  /// From one reader's piece to the next; 0 when all read the same.
  uint64_t stride = 0;
  uint64_t output = 0;
  /// Whether the peers can reach all of it.
  uint64_t reachable = 0;
};

/// The place of a call's data; not reachable when any of it is private to this process.
Place place_of(const GroupSteps& steps, const Collective& call);

/// Enters the call with our place and reads the peers' into `places` (one a rank). True
/// if everybody's data can be reached, so that nothing needs staging.
bool enter_with_place(
    GroupSteps& steps, const Collective& call, std::span<Place> places);

}  // namespace trireme::comm
