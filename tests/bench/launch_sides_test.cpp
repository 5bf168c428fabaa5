#include "trireme/bench/launch_sides.h"

#include <chrono>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::bench {
namespace {

TEST(BenchLaunchSides, EveryCommandStartsTheSameWorker) {
  const auto ours = launcher_command("/bin/folder/trireme-bench", 4);
  const auto torchrun = torchrun_command({"python3"}, "/bin/folder/trireme-bench", 4);
  EXPECT_EQ(ours[0], "/bin/folder/trireme");
  EXPECT_EQ(ours[3], "4");
  EXPECT_EQ(torchrun[0], "python3");
  EXPECT_EQ(torchrun[5], "--nproc-per-node=4");
  const std::vector<std::string> worker{
      "/bin/folder/trireme-bench", "bench", "--worker", "launch"};
  for (const auto& command : {ours, torchrun})
    EXPECT_TRUE(std::equal(worker.rbegin(), worker.rend(), command.rbegin()));
}

TEST(BenchLaunchSidesProcs, TheBarrierIsBeforeTheEnd) {
  const auto by_hand = time_by_hand(TRIREME_BENCH_PROGRAM, 2);
  const auto ours = time_command(launcher_command(TRIREME_BENCH_PROGRAM, 2));
  for (const LaunchTimes& times : {by_hand, ours}) {
    EXPECT_GT(times.barrier, 1000);  // nobody loads libtorch in a millisecond
    EXPECT_GT(times.total, times.barrier);
    EXPECT_LT(times.total, 100e6);
  }
}

TEST(BenchLaunchSidesProcs, ACommandThatFailsIsAnErrorWithItsOutput) {
  try {
    time_command({"sh", "-c", "echo the oar broke >&2; exit 3"});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the oar broke"), std::string::npos);
  }
  EXPECT_THROW(time_command({"true"}), Error);
}

TEST(BenchLaunchSidesProcs, MemoryIsThatOfTheLauncherAndItsKeeper) {
  const double kib = launcher_memory(TRIREME_BENCH_PROGRAM, 2);
  EXPECT_GT(kib, 1000);
  EXPECT_LT(kib, 12.0 * 1024);
}

}  // namespace
}  // namespace trireme::bench
