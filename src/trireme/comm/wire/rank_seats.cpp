#include "trireme/comm/wire/rank_seats.h"

#include <algorithm>

#include "trireme/comm/share_rows.h"
#include "trireme/core/error.h"

namespace trireme::comm {

std::vector<RankSeat> share_seats(
    Engine& flat, const RankSeat& mine, const Deadline& deadline) {
  std::vector<int64_t> row{mine.place, mine.ranks, mine.kernel, mine.cores.quota};
  row.insert(row.end(), mine.cores.cpus.begin(), mine.cores.cpus.end());
  const auto rows = share_rows(flat, CollectiveKind::AllGather, row, deadline);
  std::vector<RankSeat> seats;
  for (auto at = rows.begin(); at != rows.end();
       at += static_cast<std::ptrdiff_t>(row.size())) {
    RankSeat& seat =
        seats.emplace_back(RankSeat{.place = at[0], .ranks = at[1], .kernel = at[2]});
    seat.cores.quota = static_cast<int32_t>(at[3]);
    std::copy_n(at + 4, seat.cores.cpus.size(), seat.cores.cpus.begin());
  }
  return seats;
}

std::vector<int> find_hosts(const std::vector<RankSeat>& seats) {
  const int ranks = static_cast<int>(seats.size());
  const auto seat = [&](int rank) -> const RankSeat& {
    return seats[static_cast<size_t>(rank)];
  };
  std::vector<int> host_of;
  int first = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const RankSeat& its = seat(rank);
    if (rank - first >= seat(first).ranks)
      first = rank;
    const int64_t expected = seat(first).ranks;
    if (its.place != rank - first || its.ranks != expected || first + expected > ranks)
      throw InvalidArgument(text(
          "[comm] expected the ranks of each host to follow one another, so rank ",
          rank,
          " as number ",
          rank - first,
          " of ",
          expected,
          " on its host, got number ",
          its.place,
          " of ",
          its.ranks,
          "; let the launcher fill one host after the other (mpirun --map-by slot, "
          "srun --distribution=block)"));
    host_of.push_back(first);
  }
  return host_of;
}

namespace {

std::vector<RankCores> under_kernel_of(
    const std::vector<RankSeat>& seats, int rank, bool own_host_too) {
  const RankSeat& mine = seats[static_cast<size_t>(rank)];
  const int64_t first = rank - mine.place;
  std::vector<RankCores> cores;
  for (size_t k = 0; k < seats.size(); ++k) {
    const int64_t from_first = static_cast<int64_t>(k) - first;
    const bool own_host = from_first >= 0 && from_first < mine.ranks;
    if (seats[k].kernel == mine.kernel && (own_host_too || !own_host))
      cores.push_back(seats[k].cores);
  }
  return cores;
}

}  // namespace

std::vector<RankCores> company_of(const std::vector<RankSeat>& seats, int rank) {
  return under_kernel_of(seats, rank, true);
}

std::vector<RankCores> neighbours_of(const std::vector<RankSeat>& seats, int rank) {
  return under_kernel_of(seats, rank, false);
}

}  // namespace trireme::comm
