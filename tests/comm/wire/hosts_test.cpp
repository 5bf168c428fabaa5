// Which ranks are taken for a host. Real hosts are in
// tests/integration/mpi_hosts_test.cpp.
#include "trireme/comm/wire/hosts.h"

#include <gtest/gtest.h>

#include "local_hosts.h"
#include "trireme/comm/collectives.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

struct Place {
  int rank;
  int ranks;
};

// Every rank is told its place on its host; all get the same words.
void expect_refused(const std::vector<Place>& places, const std::string& words) {
  const LocalWireNet net(static_cast<int>(places.size()));
  run_threads(
      static_cast<int>(places.size()),
      [&](int rank, const Deadline& deadline) -> std::shared_ptr<Engine> {
        BackendContext context{.deadline = deadline};
        context.env.rank = rank;
        context.env.world_size = static_cast<int>(places.size());
        context.env.local_rank = places[static_cast<size_t>(rank)].rank;
        context.env.local_world_size = places[static_cast<size_t>(rank)].ranks;
        const std::string what = message_of<InvalidArgument>(
            [&] { join_hosts(context, net.join(rank, deadline)); });
        EXPECT_TRUE(contains(what, words));
        return LocalWorld(1).join(0, deadline);
      },
      [](const Group&) {});
}

TEST(HostsRanks, AreRefusedWhenRanksAreDealtOutByTurns) {
  expect_refused(
      {{0, 2}, {0, 2}, {1, 2}, {1, 2}},
      "so rank 1 as number 1 of 2 on its host, got number 0 of 2; let the launcher");
}

TEST(HostsRanks, AreRefusedWhenARankIsMissing) {
  expect_refused({{0, 2}, {1, 2}, {0, 2}}, "rank 2 as number 0 of 2");
  expect_refused({{0, 1}, {1, 2}, {0, 2}}, "rank 1 as number 0 of 2 on its host, got");
}

TEST(HostsRanks, OfOneRankEachAreAWireAlone) {
  const LocalWireNet net(3);
  run_threads(
      3,
      [&](int rank, const Deadline& deadline) {
        BackendContext context{.deadline = deadline};
        context.env.rank = rank;
        context.env.world_size = 3;
        auto engine = join_hosts(context, net.join(rank, deadline));
        EXPECT_NE(dynamic_cast<WireEngine*>(engine.get()), nullptr);
        return engine;
      },
      [](const Group& world) { barrier(world); });
}

}  // namespace
}  // namespace trireme::comm
