#include "trireme/bench/comm_mpi.h"

#include <gtest/gtest.h>

#include "trireme/bench/comm_teams.h"

namespace trireme::bench {
namespace {

// Each looks at a sum before it measures. MPI runs only in a process of mpirun's.
TEST(BenchCommMpiProcs, MeasuresAllWaysUnderOneMpirun) {
  if (const std::string missing = missing_mpi(); !missing.empty())
    GTEST_SKIP() << missing;
  CommTeams teams(TRIREME_BENCH_PROGRAM);
  for (const char* op : {"all_reduce", "all_reduce_hosts", "MPI_Allreduce"})
    for (const int64_t bytes : {4, 1 << 20}) {
      const CommSide side{
          .team = CommTeam::Mpi, .job = {.op = op, .bytes = bytes, .repetitions = 2}};
      const auto times = teams.measure(side, 4);
      ASSERT_EQ(times.size(), 2u) << op;
      for (const double microseconds : times)
        EXPECT_GT(microseconds, 0) << op;
    }
}

}  // namespace
}  // namespace trireme::bench
