// `trireme run` with ranks that meet over shared memory.
#include "run_case.h"

namespace trireme::launch {
namespace {

class RunWorldProcs : public RunCase {
 protected:
  std::unique_ptr<Launched> world(const Words& options, const std::string& mode) const {
    Words all = {TRIREME_PROGRAM, "run"};
    all.insert(all.end(), options.begin(), options.end());
    all.insert(all.end(), {"--", WORLD_RANK, mark_.word(), mode});
    return std::make_unique<Launched>(all);
  }
};

TEST_F(RunWorldProcs, RanksMeet) {
  const auto launched = world({"-n", "3"}, "");
  EXPECT_EQ(launched->finish(), Ending{}) << launched->err();
  for (const char* line :
       {"rank 0 has the sum 6\n", "rank 1 has the sum 6\n", "rank 2 has the sum 6\n"})
    EXPECT_NE(launched->out().find(line), std::string::npos) << launched->out();
}

TEST_F(RunWorldProcs, ARankThatExitsBeforeInitEndsTheOthers) {
  const Stopwatch watch;
  const auto launched = world({"-n", "3"}, "exit_before_init");
  EXPECT_EQ(launched->finish(), Ending{.exit_code = 9}) << launched->err();
  EXPECT_LT(watch.passed(), 20s) << "the others would wait for five minutes";
  EXPECT_NE(
      launched->err().find("[launch] rank 1 of 3 exited with code 9 after "),
      std::string::npos)
      << launched->err();
}

TEST_F(RunWorldProcs, ARestartDoesNotMeetAnOldRank) {
  const auto launched =
      world({"-n", "2", "--max-restarts", "1", "--grace", "0.5"}, "linger");
  EXPECT_EQ(launched->finish(), Ending{}) << launched->err();
  for (const char* line : {"rank 0 has the sum 3\n", "rank 1 has the sum 3\n"})
    EXPECT_EQ(Launched::count(launched->out(), line), 1) << launched->out();
  EXPECT_EQ(Launched::count(launched->err(), "exited with code 3"), 1)
      << launched->err();
}

TEST_F(RunWorldProcs, TwoJobsOnOneHostDoNotMeet) {
  const auto one = world({"-n", "2"}, "");
  const auto other = world({"-n", "3"}, "");
  EXPECT_EQ(one->finish(), Ending{}) << one->err();
  EXPECT_EQ(other->finish(), Ending{}) << other->err();
  EXPECT_EQ(Launched::count(one->out(), "has the sum 3\n"), 2) << one->out();
  EXPECT_EQ(Launched::count(other->out(), "has the sum 6\n"), 3) << other->out();
}

}  // namespace
}  // namespace trireme::launch
