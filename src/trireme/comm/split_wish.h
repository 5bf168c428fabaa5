// What the ranks of a group wish for when it is split, and who comes together.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/share_rows.h"

namespace trireme::comm {

/// The part of a group to which a rank goes; empty for a negative colour.
struct SplitWish {
  /// Who has the same colour, counted in the group that is split, in the order of the
  /// new one: by key, and then by rank.
  std::vector<int> ranks;
  /// The same ranks, counted in the world.
  std::vector<int> members;
  /// Our place among them.
  int rank = 0;
};

/// Shares everybody's colour and key. Collective.
SplitWish share_wishes(Engine& engine, int color, int key, const Deadline& deadline);

}  // namespace trireme::comm
