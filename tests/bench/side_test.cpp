#include "trireme/bench/side.h"

#include <gtest/gtest.h>

#include "trireme/bench/protocol.h"
#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

constexpr auto kLimit = std::chrono::seconds(60);

/// A rank that answers every line with its rank and its process id.
std::vector<std::string> echoing() {
  return {
      "sh",
      "-c",
      "echo '{\"rows\": []}'; while read -r line; do echo \"{\\\"rows\\\": [[$RANK, "
      "$$]]}\"; done"};
}

TEST(BenchSideProcs, AsksAllRanksAndKeepsThem) {
  RankSide side("echo", 2, echoing());
  EXPECT_EQ(side.missing(), "");
  const Rows first = side.ask("job", kLimit);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[1][0], 1);
  EXPECT_EQ(side.ask("job", kLimit), first);
}

TEST(BenchSideProcs, StartsAgainAfterAStop) {
  RankSide side("echo", 1, echoing());
  const Rows first = side.ask("job", kLimit);
  side.stop();
  EXPECT_NE(side.ask("job", kLimit), first);
}

TEST(BenchSideProcs, SaysWhyItIsGone) {
  RankSide side("broken", 1, {"sh", "-c", "echo the oar broke >&2; exit 3"});
  try {
    side.ask("job", kLimit);
    FAIL() << "no error";
  } catch (const Error& error) {
    side.give_up(error.what());
  }
  EXPECT_NE(side.missing().find("the oar broke"), std::string::npos) << side.missing();
}

TEST(BenchSide, BothSidesHaveOneThread) {
  EXPECT_EQ(side_variables().at("OMP_NUM_THREADS"), "1");
}

}  // namespace
}  // namespace trireme::bench
