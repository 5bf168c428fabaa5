// Which messages share a channel.
#include "trireme/sched/channels.h"

#include "helpers.h"

namespace trireme::sched {
namespace {

TEST(Channels, OneForEachWayAndKind) {
  const ChannelMap map(Schedule{.rank_of_stage = {0, 1, 0, 1}});
  // Activations both ways (0 to 1, and 1 to 2 on rank 0), gradients both ways.
  ASSERT_EQ(map.channels().size(), 4U);
  const auto& first = map.uses({ActionKind::SendForward, 0, 0});
  const auto& third = map.uses({ActionKind::SendForward, 2, 0});
  ASSERT_EQ(first.size(), 1U);
  ASSERT_EQ(third.size(), 1U);
  EXPECT_EQ(first[0].channel, third[0].channel);
  EXPECT_EQ(first[0].other, 1);
  const Channel& channel = map.channels()[static_cast<size_t>(first[0].channel)];
  EXPECT_EQ(channel.from, 0);
  EXPECT_EQ(channel.to, 1);
  EXPECT_TRUE(channel.forward);
  EXPECT_EQ(map.uses({ActionKind::ReceiveForward, 1, 0})[0].channel, first[0].channel);
}

TEST(Channels, NoneWithinARankAndNoneForComputations) {
  const ChannelMap map(Schedule{.rank_of_stage = {0, 1, 1, 0}});
  EXPECT_TRUE(map.uses({ActionKind::SendForward, 1, 0}).empty());
  EXPECT_TRUE(map.uses({ActionKind::ReceiveBackward, 1, 0}).empty());
  EXPECT_FALSE(map.uses({ActionKind::SendBackward, 1, 0}).empty());
  EXPECT_TRUE(map.uses({ActionKind::Forward, 0, 0}).empty());
  EXPECT_TRUE(map.uses(Action()).empty());
}

TEST(Channels, ASkipConnectionIsOneMoreMessage) {
  Schedule schedule{.rank_of_stage = {0, 1, 2}};
  schedule.extra_edges = {{0, 2}};
  const ChannelMap map(schedule);
  EXPECT_EQ(map.uses({ActionKind::SendForward, 0, 0}).size(), 2U);
  EXPECT_EQ(map.uses({ActionKind::ReceiveForward, 2, 0}).size(), 2U);
  EXPECT_EQ(map.uses({ActionKind::SendBackward, 2, 0}).size(), 2U);
}

TEST(Channels, TakeTheLinkThatIsKnown) {
  const ChannelMap map(Schedule{.rank_of_stage = {0, 1, 2}});
  Costs costs;
  costs.link.latency = 5;
  costs.links = {{.from = 1, .to = 2, .latency = 7}};
  const auto links = links_of(map, costs);
  for (size_t i = 0; i < links.size(); ++i) {
    const bool known = map.channels()[i].from == 1 && map.channels()[i].to == 2;
    EXPECT_EQ(links[i].latency, known ? 7 : 5);
  }
}

}  // namespace
}  // namespace trireme::sched
