#include "trireme/pipe/measure_links.h"

#include <map>

#include <gtest/gtest.h>

#include "slow_network.h"
#include "trireme/comm/init.h"
#include "trireme/sched/generate.h"
#include "trireme/sched/simulate.h"
#include "trireme/testing/world.h"

namespace trireme::pipe {
namespace {

using Pair = std::pair<int, int>;

std::map<Pair, sched::Link> by_pair(const std::vector<sched::Link>& links) {
  std::map<Pair, sched::Link> all;
  for (const sched::Link& link : links)
    EXPECT_TRUE(all.emplace(Pair{link.from, link.to}, link).second);
  return all;
}

constexpr int64_t kMessage = 400'000;
constexpr double kSlow = 40e6;  // bytes a second: 10 ms a message

/// Ranks 0 and 1 on one host, 2 and 3 on another, with a slow network in between.
std::vector<sched::Link> measure_two_hosts() {
  const comm::LocalWorld world(4);
  const std::vector<comm::RankHost> hosts{
      {.kernel = 1, .first_rank = 0},
      {.kernel = 1, .first_rank = 0},
      {.kernel = 1, .first_rank = 2},
      {.kernel = 1, .first_rank = 2}};
  std::vector<std::vector<sched::Link>> seen(4);
  comm::run_threads(
      4,
      [&world](int rank, const Deadline& deadline) {
        return std::make_shared<SlowNetwork>(world.join(rank, deadline), kSlow);
      },
      [&](const comm::Group& group) {
        // Twice: the channels of the first time are closed.
        for (int time = 0; time < 2; ++time)
          seen[static_cast<size_t>(group.rank())] =
              measure_links(group, hosts, kMessage);
      },
      {.timeout = std::chrono::seconds(30)});
  for (size_t rank = 1; rank < seen.size(); ++rank) {
    EXPECT_EQ(seen[rank].size(), seen[0].size());
    for (size_t i = 0; i < seen[0].size(); ++i)
      EXPECT_EQ(seen[rank][i].bandwidth, seen[0][i].bandwidth) << "on rank " << rank;
  }
  return seen[0];
}

TEST(MeasureLinksRanks, KnowAHostFromANetwork) {
  const auto links = by_pair(measure_two_hosts());
  ASSERT_EQ(links.size(), 12U) << "every pair, both ways";
  for (const auto& [ends, link] : links) {
    EXPECT_GT(link.latency, 0);
    if ((ends.first < 2) == (ends.second < 2)) {
      EXPECT_GT(link.bandwidth, 4 * kSlow) << ends.first << " to " << ends.second;
    } else {
      EXPECT_LT(link.bandwidth, 1.2 * kSlow);
      EXPECT_GT(link.bandwidth, kSlow / 4) << "of a busy machine";
    }
  }
}

// What it is for: between hosts messages cost, and a plan sees it.
TEST(MeasureLinksRanks, MakeStepsOverANetworkDear) {
  sched::Costs costs{
      .stages = {{.forward = 0.001, .backward = 0.002}},
      .links = measure_two_hosts(),
      .message_bytes = kMessage};
  const auto makespan = [&costs](const char* schedule) {
    return sched::simulate(
               sched::generate(schedule, {.ranks = 4, .microbatches = 8}),
               {.costs = costs})
        .makespan;
  };
  const double plain = makespan("1F1B"), interleaved = makespan("Interleaved1F1B");
  // From rank 3 back to rank 0 it is the network again, which interleaving crosses.
  costs.links.clear();
  EXPECT_GT(plain, 1.5 * makespan("1F1B"));
  EXPECT_GT(interleaved - makespan("Interleaved1F1B"), plain - makespan("1F1B"));
}

TEST(MeasureLinksRanks, OfOneHostAreAlike) {
  for (const auto backend : {testing::Backend::Local, testing::Backend::Shm})
    testing::run_world(backend, 3, [](const comm::Group& world) {
      const std::vector<comm::RankHost> hosts(3);
      const auto links = by_pair(measure_links(world, hosts, 1000));
      ASSERT_EQ(links.size(), 6U);
      for (const auto& [ends, link] : links)
        EXPECT_EQ(link.latency, links.at({0, 1}).latency);
    });
}

TEST(MeasureLinksRanks, OfARankAloneAreNone) {
  testing::run_world(testing::Backend::Local, 1, [](const comm::Group& world) {
    EXPECT_TRUE(measure_links(world, {{}}, 1000).empty());
  });
}

}  // namespace
}  // namespace trireme::pipe
