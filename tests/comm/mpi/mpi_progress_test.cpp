// The thread that sees sends through.
#include "trireme/comm/mpi/mpi_progress.h"

#include <cstring>

#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/comm/mpi/mpi_runtime.h"

namespace trireme::comm {
namespace {

TEST(MpiProgressProcs, SendsAreSeenThrough) {
  const int me = testing::mpi_world().rank();
  MPI_Comm comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_SELF, &comm), "MPI_Comm_dup");
  {
    BufferPool pool;
    MpiProgress progress([](const std::string& what) { ADD_FAILURE() << what; });
    EXPECT_EQ(progress.pending(), 0U);
    constexpr size_t kBytes = 5 << 20;  // too large to go before somebody receives
    for (int i = 0; i < 3; ++i) {
      Buffer buffer = pool.take(kBytes);
      std::memset(buffer.data(), me + i, kBytes);
      progress.send(
          {.to = 0, .tag = i, .comm = comm}, std::move(buffer), kBytes, MPI_BYTE);
    }
    EXPECT_EQ(progress.drain(Deadline::after(std::chrono::milliseconds(30))), 3U);
    EXPECT_EQ(pool.stats().live_buffers, 3U);
    std::vector<char> got(kBytes);
    for (const int i : {2, 0, 1}) {
      check_mpi(
          MPI_Recv(got.data(), kBytes, MPI_BYTE, 0, i, comm, MPI_STATUS_IGNORE),
          "MPI_Recv");
      EXPECT_EQ(got.back(), static_cast<char>(me + i));
    }
    EXPECT_EQ(progress.drain(Deadline::after(std::chrono::seconds(30))), 0U);
    EXPECT_EQ(pool.stats().live_buffers, 0U);
    progress.stop();
    progress.stop();  // harmless
  }
  MPI_Comm_free(&comm);
}

}  // namespace
}  // namespace trireme::comm
