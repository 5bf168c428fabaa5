// MPI as a wire: the conformance suite over it, and what is different here.
#include "trireme/comm/mpi/mpi_wire.h"

#include <cstdlib>
#include <thread>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;
using testing::mpi_world;

// The sizes that fit into this run of mpirun: two runs cover one to four ranks.
std::vector<int> sizes() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  const int ranks = size != nullptr ? std::atoi(size) : 1;
  return ranks == 1 ? std::vector{1} : std::vector{ranks - 1, ranks};
}

const bool registered = [] {
  testing::register_conformance(
      {.suite = "ConformanceMpiProcs",
       .run = testing::run_mpi,
       .sizes = sizes(),
       .no_failures = "the first failure ends an MPI job (MPI_Abort); "
                      "mpi_failure_test.py looks at that"});
  return true;
}();

TEST(MpiWireProcs, IsTheBackendMpi) {
  EXPECT_TRUE(registered);
  EXPECT_EQ(mpi_world().backend(), "mpi");
  EXPECT_EQ(mpi_world().allocate({2, 3}, at::kHalf).sizes(), at::IntArrayRef({2, 3}));
  mpi_world().engine().check();
}

TEST(MpiWireProcs, HasNoWayBackAfterAFailure) {
  EXPECT_TRUE(contains(
      message_of<NotSupported>([] { mpi_world().renew(); }),
      "MPI has no way back: start the job again"));
}

TEST(MpiWireProcs, MembersAreRanksOfTheWorld) {
  const Group& world = mpi_world();
  const Group reversed = world.split(0, -world.rank());
  const Group pair = reversed.split(reversed.rank() / 2);
  const int first = world.size() - 1 - reversed.rank() / 2 * 2;
  EXPECT_EQ(pair.members()[0], first);
}

// Async collectives on the group's thread while this thread sends and receives.
TEST(MpiWireProcs, CollectivesAndChannelsRunSideBySide) {
  const Group& world = mpi_world();
  const int n = world.size();
  const int next = (world.rank() + 1) % n, before = (world.rank() + n - 1) % n;
  const Channel out(world, {world.rank(), next, 3});
  const Channel in = n == 1 ? out : Channel(world, {before, world.rank(), 3});
  std::vector<at::Tensor> sums;
  std::vector<Work> works;
  for (int round = 0; round < 30; ++round) {
    sums.push_back(at::full({round % 2 == 0 ? 300000 : 10}, world.rank() + round));
    works.push_back(all_reduce(world, sums.back(), {.async = true}));
    out.send({.tensors = {at::full({40000}, round)}, .header = {.word = round}});
    const Message got = in.receive();
    ASSERT_EQ(got.header.word, round);
    EXPECT_TRUE(testing::same(got.tensors[0], at::full({40000}, round)));
  }
  for (size_t round = 0; round < works.size(); ++round) {
    works[round].wait();
    EXPECT_EQ(
        sums[round][5].item<int64_t>(),
        n * (n - 1) / 2 + n * static_cast<int64_t>(round));
  }
}

// Groups that share ranks, each with calls under way on its own thread.
TEST(MpiWireProcs, GroupsWorkAtTheSameTime) {
  const Group& world = mpi_world();
  const Group first = world.split(0), second = world.split(0, -world.rank());
  std::vector<at::Tensor> a, b;
  std::vector<Work> works;
  for (int round = 0; round < 50; ++round) {
    a.push_back(at::ones({1000}));
    b.push_back(at::ones({100000}));
    works.push_back(all_reduce(first, a.back(), {.async = true}));
    works.push_back(all_reduce(second, b.back(), {.async = true}));
  }
  for (const Work& work : works)
    work.wait();
  for (const auto& list : {a, b})
    for (const at::Tensor& each : list)
      EXPECT_EQ(each[9].item<float>(), static_cast<float>(world.size()));
}

void run_all(
    const std::vector<testing::ConformanceCase>& cases, const MpiSetup& setup) {
  const Group world = testing::tuned_world(setup);
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    one.body(world);
  }
}

// What is beyond the int of MPI's counts, at a size that a test can have.
TEST(MpiWireProcs, CutsLongTransfers) {
  const MpiSetup setup{.tuning = {.small_bytes = 0}, .transfer_bytes = 10007};
  run_all(testing::reduction_cases(), setup);
  run_all(testing::move_cases(), setup);
}

TEST(MpiWireProcs, AgreesByATreeAndCollectsEverything) {
  const MpiSetup setup{.tuning = {.direct_ranks = 0, .small_bytes = size_t{1} << 28}};
  run_all(testing::reduction_cases(), setup);
  run_all(testing::move_cases(), setup);
}

TEST(MpiWireProcs, TransfersOfTwoRanksKeepTheirOrder) {
  MpiRuntime& runtime = testing::mpi_runtime();
  const Deadline deadline = Deadline::after(std::chrono::seconds(60));
  const auto wire = MpiWire::root(
      std::make_shared<MpiWorld>(
          runtime, MpiSetup{.local_ranks = runtime.size(), .flight_folder = ""}),
      deadline);
  const int size = wire->size(), rank = wire->rank();
  const int next = (rank + 1) % size, before = (rank + size - 1) % size;
  std::vector<int64_t> out(50), in(50, -1);
  wire->begin(signature({.kind = CollectiveKind::AllGather}), deadline);
  std::vector<Wire::Transfer> coming;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = rank * 1000 + static_cast<int64_t>(i);
    coming.push_back(
        wire->receive(before, reinterpret_cast<std::byte*>(&in[i]), sizeof in[i]));
    wire->send(next, reinterpret_cast<const std::byte*>(&out[i]), sizeof out[i]);
    wire->receive(before, nullptr, 0);  // nothing
    wire->send(next, nullptr, 0);
  }
  wire->wait(coming[7]);
  EXPECT_EQ(in[7], before * 1000 + 7);
  wire->finish();
  for (size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], before * 1000 + static_cast<int64_t>(i));
}

}  // namespace
}  // namespace trireme::comm
