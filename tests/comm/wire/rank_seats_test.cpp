#include "trireme/comm/wire/rank_seats.h"

#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/core/error.h"

namespace trireme::comm {
namespace {

RankSeat seat(int64_t place, int64_t ranks, int64_t kernel, int cpu) {
  RankSeat one{.place = place, .ranks = ranks, .kernel = kernel};
  one.cores.add(cpu);
  return one;
}

// Hosts of two, one and two ranks; the first and the last are one machine.
const std::vector<RankSeat> kSeats{
    seat(0, 2, 7, 0),
    seat(1, 2, 7, 1),
    seat(0, 1, 8, 0),
    seat(0, 2, 7, 2),
    seat(1, 2, 7, 3)};

TEST(RankSeats, MakeHosts) {
  EXPECT_EQ(find_hosts(kSeats), (std::vector<int>{0, 0, 2, 3, 3}));
}

TEST(RankSeats, MustFollowOneAnother) {
  EXPECT_THROW(
      find_hosts({seat(0, 2, 7, 0), seat(0, 2, 8, 0), seat(1, 2, 7, 0)}),
      InvalidArgument);
  EXPECT_THROW(find_hosts({seat(0, 2, 7, 0)}), InvalidArgument);
  EXPECT_THROW(find_hosts({seat(0, 2, 7, 0), seat(1, 3, 7, 0)}), InvalidArgument);
}

TEST(RankSeats, OfOneMachineAreCompanyWhateverTheirHost) {
  EXPECT_EQ(cores_together(company_of(kSeats, 1)), 4);
  EXPECT_EQ(company_of(kSeats, 2).size(), 1U);
  EXPECT_EQ(neighbours_of(kSeats, 0).size(), 2U);
  EXPECT_EQ(neighbours_of(kSeats, 4).size(), 2U);
  EXPECT_TRUE(neighbours_of(kSeats, 2).empty());
}

TEST(RankSeatsRanks, ArriveWhole) {
  run_wire(3, [](const Group& world) {
    RankSeat mine = seat(world.rank(), 3, -5, 1000 + world.rank());
    mine.cores.quota = 2;
    const auto seats =
        share_seats(world.engine(), mine, Deadline::after(std::chrono::seconds(20)));
    ASSERT_EQ(seats.size(), 3U);
    for (int rank = 0; rank < 3; ++rank) {
      const RankSeat& its = seats[static_cast<size_t>(rank)];
      EXPECT_EQ(its.place, rank);
      EXPECT_EQ(its.ranks, 3);
      EXPECT_EQ(its.kernel, -5);
      EXPECT_EQ(its.cores.quota, 2);
      EXPECT_EQ(its.cores.cpus, seat(0, 1, 0, 1000 + rank).cores.cpus);
    }
  });
}

}  // namespace
}  // namespace trireme::comm
