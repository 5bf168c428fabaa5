// MPI's interface as it is used here.
#include "trireme/comm/mpi/mpi_api.h"

#include <climits>
#include <set>

#include <gtest/gtest.h>

#include "mpi_test_world.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::comm {
namespace {

using testing::contains;
using testing::message_of;

TEST(MpiApiProcs, ErrorsComeWithTheWordsOfMpi) {
  testing::mpi_world();
  check_mpi(MPI_SUCCESS, "MPI_Nothing");
  const std::string what =
      message_of<InternalError>([] { check_mpi(MPI_ERR_RANK, "MPI_Send"); });
  EXPECT_TRUE(contains(what, "[comm] expected MPI_Send to succeed, got: "));
  EXPECT_TRUE(contains(what, "rank"));
}

TEST(MpiApiProcs, TagsOfChannelsAreApart) {
  std::set<int> tags = {kCollectiveTag};
  for (int channel = 0; channel < 1000; ++channel) {
    EXPECT_TRUE(tags.insert(message_tag(channel)).second);
    EXPECT_TRUE(tags.insert(credit_tag(channel)).second);
  }
  for (const int highest : {32767, 8388607, INT_MAX}) {
    EXPECT_LE(credit_tag(highest_channel(highest)), highest);
    EXPECT_GT(int64_t{credit_tag(highest_channel(highest) - 1)} + 4, highest - 2);
  }
}

TEST(MpiApiProcs, MessagesBeyondAnIntHaveACount) {
  EXPECT_EQ(message_blocks(128), 2);
  EXPECT_EQ(message_blocks(size_t{100} << 30), 100 << 24);
}

}  // namespace
}  // namespace trireme::comm
