// Which ranks live together.
#include "trireme/comm/wire/host_layout.h"

#include <gtest/gtest.h>

namespace trireme::comm {
namespace {

TEST(HostLayout, CountsHostsInTheOrderOfRanks) {
  const std::vector<int> host_of = {7, 7, 7, 2, 5, 5};
  const auto layout = lay_out_hosts(host_of, 4);
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->leaders, (std::vector{0, 3, 4}));
  EXPECT_EQ(layout->hosts(), 3);
  EXPECT_EQ(layout->mine, 2);
  EXPECT_TRUE(layout->last());
  EXPECT_EQ(layout->most_ranks(), 3);
  const std::vector<int> hosts = {0, 0, 0, 1, 2, 2}, sizes = {3, 1, 2};
  for (int rank = 0; rank < 6; ++rank)
    EXPECT_EQ(layout->host_of(rank), hosts[static_cast<size_t>(rank)]);
  for (int host = 0; host < 3; ++host)
    EXPECT_EQ(layout->ranks_of(host), sizes[static_cast<size_t>(host)]);
}

TEST(HostLayout, RefusesRanksThatDoNotFollowOneAnother) {
  EXPECT_FALSE(lay_out_hosts(std::vector{0, 1, 0}, 0));
  EXPECT_FALSE(lay_out_hosts(std::vector{3, 3, 4, 3}, 2));
  EXPECT_TRUE(lay_out_hosts(std::vector{0}, 0));
}

}  // namespace
}  // namespace trireme::comm
