// Where the ranks of a world are: on which host, and under which kernel.
#pragma once
#include <cstdint>
#include <vector>

#include "trireme/comm/engine.h"
#include "trireme/comm/shared/rank_cores.h"

namespace trireme::comm {

/// What a rank tells the others of its place.
struct RankSeat {
  /// Counted on its host, and how many are there, as the launcher has said.
  int64_t place = 0;
  int64_t ranks = 1;
  /// Several hosts may be containers, or network namespaces, under one kernel.
  int64_t kernel = 0;
  RankCores cores;
};

/// Everybody's seat, in rank order. Collective.
std::vector<RankSeat> share_seats(
    Engine& flat, const RankSeat& mine, const Deadline& deadline);

/// The first rank of each rank's host: places (0 of 2), (1 of 2), (0 of 2), (1 of 2)
/// are two hosts. InvalidArgument where the ranks of a host do not follow one another.
std::vector<int> find_hosts(const std::vector<RankSeat>& seats);

/// The cores of all ranks under the kernel of `rank`, its own among them.
std::vector<RankCores> company_of(const std::vector<RankSeat>& seats, int rank);

/// The same without those of its host.
std::vector<RankCores> neighbours_of(const std::vector<RankSeat>& seats, int rank);

}  // namespace trireme::comm
