// Several hosts over MPI, all of them this machine: a segment each, and MPI in between.
#include <cstdlib>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "../comm/mpi/mpi_test_world.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/comm/wire/hosts_engine.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/conformance.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

Group join(const std::vector<int>& sizes) {
  return init(
      testing::on_hosts(sizes),
      {.backend = "mpi", .timeout = std::chrono::seconds(60)});
}

void add_hosts(const std::string& name, const std::vector<int>& sizes) {
  testing::register_conformance(
      {.suite = "ConformanceMpiHosts" + name + "Procs",
       .run =
           [sizes](int, const testing::RankBody& body) {
             static std::map<std::vector<int>, Group> worlds;
             Group& world = worlds.try_emplace(sizes).first->second;
             if (!world)
               world = join(sizes);
             try {
               body(world.split(0));
             } catch (const std::exception& error) {
               world.abort(error.what());
             }
             barrier(world);
           },
       .sizes = {4},
       .no_failures = "the first failure ends an MPI job (MPI_Abort); "
                      "mpi_failure_test.py looks at that"});
}

bool has_four() {
  const char* size = std::getenv("OMPI_COMM_WORLD_SIZE");
  return size != nullptr && std::atoi(size) == 4;
}

const bool mpi_hosts_registered = [] {
  if (has_four()) {
    add_hosts("22", {2, 2});
    add_hosts("31", {3, 1});
  }
  return true;
}();

TEST(MpiHostsProcs, HaveTheBitsOfOneHost) {
  EXPECT_TRUE(mpi_hosts_registered);
  if (!has_four())
    return;
  const Group hosts = join({2, 2});
  EXPECT_EQ(hosts.backend(), "mpi");
  EXPECT_NE(dynamic_cast<HostsEngine*>(&hosts.engine()), nullptr);
  for (const at::ScalarType dtype : {at::kFloat, at::kHalf, at::kBFloat16})
    for (const int64_t count : {3, 5000, 700001}) {
      at::manual_seed(static_cast<uint64_t>(hosts.rank()));
      at::Tensor a = at::randn({count}).to(dtype), b = a.clone();
      all_reduce(hosts, a, {.op = ReduceOp::Mean});
      all_reduce(testing::mpi_world(), b, {.op = ReduceOp::Mean});
      EXPECT_TRUE(testing::same(a, b));
    }
}

TEST(MpiHostsProcs, WithOneRankAHostNeedNothingButMpi) {
  const std::vector<int> sizes(static_cast<size_t>(testing::mpi_world().size()), 1);
  const Group hosts = join(sizes);
  EXPECT_EQ(dynamic_cast<HostsEngine*>(&hosts.engine()), nullptr);
  barrier(hosts);
}

TEST(MpiHostsProcs, RefuseRanksThatAreDealtOutByTurns) {
  if (!has_four())
    return;
  LaunchEnv env = testing::on_hosts({4});
  env.local_rank = env.rank / 2;
  env.local_world_size = 2;
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { init(env, {.backend = "mpi"}); }),
      "so rank 1 as number 1 of 2 on its host, got number 0 of 2; let the launcher "
      "fill one host after the other (mpirun --map-by slot"));
}

}  // namespace
}  // namespace trireme::comm
