#include "trireme/bench/two_hosts.h"

#include <gtest/gtest.h>

#include "trireme/launch/child.h"

namespace trireme::bench {
namespace {

std::string namespaces() {
  return launch::run_child({.command = {"ip", "netns", "list"}}).out;
}

TEST(BenchTwoHosts, PlacesHalfOfTheWorkersOnEachAndLeavesNothingBehind) {
  if (const std::string missing = TwoHosts::missing(); !missing.empty())
    GTEST_SKIP() << missing;
  const std::string before = namespaces();
  {
    const TwoHosts hosts;
    const auto starts =
        hosts.place(rank_starts({"program"}, 4, {{"OMP_NUM_THREADS", "1"}}));
    ASSERT_EQ(starts.size(), 4u);
    for (size_t rank = 0; rank < 4; ++rank) {
      const auto& variables = starts[rank].variables;
      EXPECT_EQ(variables.at("RANK"), std::to_string(rank));
      EXPECT_EQ(variables.at("LOCAL_RANK"), std::to_string(rank % 2));
      EXPECT_EQ(variables.at("LOCAL_WORLD_SIZE"), "2");
      EXPECT_EQ(variables.at("GROUP_RANK"), std::to_string(rank / 2));
      EXPECT_EQ(starts[rank].command.back(), "program");
    }
    EXPECT_EQ(starts[0].command, starts[1].command);
    EXPECT_NE(starts[1].command, starts[2].command);
    EXPECT_NE(namespaces(), before);
    // Each has an interface of the name that the peer is told.
    for (const size_t rank : {0u, 2u}) {
      std::vector<std::string> show = starts[rank].command;
      show.back() = "ip";
      show.insert(show.end(), {"addr", "show", TwoHosts::kInterface});
      const auto shown = launch::run_child({.command = show});
      EXPECT_NE(shown.out.find("10.213.77."), std::string::npos) << shown.err;
    }
  }
  EXPECT_EQ(namespaces(), before);
}

TEST(BenchTwoHosts, MayHaveALinkThatIsLimited) {
  if (const std::string missing = TwoHosts::missing(HostLink::Gigabit);
      !missing.empty())
    GTEST_SKIP() << missing;
  const std::string before = namespaces();
  {
    const TwoHosts free, limited(HostLink::Gigabit);
    for (const TwoHosts* hosts : {&free, &limited})
      for (WorkerStart& start : hosts->place(rank_starts({"tc"}, 2, {}))) {
        start.command.insert(
            start.command.end(), {"qdisc", "show", "dev", TwoHosts::kInterface});
        const auto shown = launch::run_child({.command = start.command});
        EXPECT_EQ(shown.out.find("rate 1Gbit") != shown.out.npos, hosts == &limited)
            << shown.out << shown.err;
      }
  }
  EXPECT_EQ(namespaces(), before);
}

}  // namespace
}  // namespace trireme::bench
