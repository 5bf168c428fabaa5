#include <gtest/gtest.h>

#include "trireme/bench/comm_mpi.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchCommMpiAbsent, SaysHowToGetIt) {
  EXPECT_THROW(mpi_all_reduce({}), NotSupported);
  EXPECT_THROW(mpi_barrier(), NotSupported);
}

}  // namespace
}  // namespace trireme::bench
