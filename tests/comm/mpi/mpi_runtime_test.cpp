// MPI in this process.
#include "trireme/comm/mpi/mpi_runtime.h"

#include <gtest/gtest.h>

#include "mpi_test_world.h"

namespace trireme::comm {
namespace {

TEST(MpiRuntimeProcs, IsOneForTheProcess) {
  const Group& world = testing::mpi_world();
  MpiRuntime& runtime = testing::mpi_runtime();
  EXPECT_EQ(&runtime, &testing::mpi_runtime());
  EXPECT_EQ(runtime.rank(), world.rank());
  EXPECT_EQ(runtime.size(), world.size());
  EXPECT_FALSE(runtime.ended());
  EXPECT_GE(runtime.highest_tag(), 32767);  // what the standard promises
}

TEST(MpiRuntimeProcs, AnyThreadMayCallMpi) {
  testing::mpi_world();
  int level = 0;
  MPI_Query_thread(&level);
  EXPECT_EQ(level, MPI_THREAD_MULTIPLE);
}

TEST(MpiRuntimeProcs, ABlockIsTheAlignmentOfMessages) {
  testing::mpi_world();
  int bytes = 0;
  check_mpi(MPI_Type_size(testing::mpi_runtime().block(), &bytes), "MPI_Type_size");
  EXPECT_EQ(bytes, static_cast<int>(kMessageAlignment));
}

}  // namespace
}  // namespace trireme::comm
