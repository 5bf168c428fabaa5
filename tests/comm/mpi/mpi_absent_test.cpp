// The backend mpi in a build without MPI.
#include <gtest/gtest.h>

#include "trireme/comm/mpi/mpi_backend.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

TEST(MpiAbsent, SaysHowToGetIt) {
  EXPECT_FALSE(has_mpi());
  const BackendContext context{.deadline = Deadline::after(std::chrono::seconds(1))};
  EXPECT_TRUE(testing::contains(
      testing::message_of<NotSupported>([&] { start_backend("mpi", context); }),
      "install libopenmpi-dev and openmpi-bin, configure again"));
}

}  // namespace
}  // namespace trireme::comm
