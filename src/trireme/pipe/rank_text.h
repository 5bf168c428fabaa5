// How messages name a rank.
#pragma once
#include <string>
#include <vector>

#include "trireme/core/error.h"

namespace trireme::pipe {

/// "rank 1", as the pipeline's group counts, or "rank 1 (world rank 5)" where the world
/// counts otherwise. `members` are the ranks in the world; empty: the same.
inline std::string rank_text(int rank, const std::vector<int>& members) {
  const auto place = static_cast<size_t>(rank);
  if (place >= members.size() || members[place] == rank)
    return text("rank ", rank);
  return text("rank ", rank, " (world rank ", members[place], ")");
}

}  // namespace trireme::pipe
