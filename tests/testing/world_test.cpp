#include "trireme/testing/world.h"

#include <atomic>
#include <signal.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/comm/collectives.h"
#include "trireme/core/error.h"

namespace trireme::testing {
namespace {

TEST(WorldRanks, RunsEveryRankOnce) {
  for (const Backend backend : {Backend::Local, Backend::ShmThreads}) {
    std::atomic<int> ranks{0};
    run_world(backend, 3, [&](const comm::Group& world) { ranks += world.rank() + 1; });
    EXPECT_EQ(ranks.load(), 6) << to_string(backend);
  }
}

TEST(WorldRanks, ThrowsTheErrorOfTheRankThatBegan) {
  EXPECT_THROW(
      run_world(
          Backend::Local,
          3,
          [](const comm::Group& world) {
            if (world.rank() == 1)
              throw std::out_of_range("rank 1 fell overboard");
            comm::barrier(world);
          }),
      std::out_of_range);
}

TEST(WorldProcs, FailsWhenARankFails) {
  EXPECT_THROW(
      run_world(
          Backend::Shm,
          2,
          [](const comm::Group& world) {
            if (world.rank() == 1)
              throw std::out_of_range("rank 1 fell overboard");
            comm::barrier(world);
          }),
      InternalError);
}

TEST(WorldProcs, TellsHowProcessesEnd) {
  Processes processes;
  processes.start([] { return 0; });
  processes.start([] { return 7; });
  processes.start([]() -> int { throw std::runtime_error("expected in this test"); });
  processes.start([] {
    ::raise(SIGTERM);
    return 0;
  });
  processes.start([] {
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  });
  const auto endings = processes.wait(std::chrono::milliseconds(500));
  EXPECT_EQ(endings[0].exit_code, 0);
  EXPECT_EQ(endings[1].exit_code, 7);
  EXPECT_EQ(endings[2].exit_code, 1);
  EXPECT_EQ(endings[3].signal, SIGTERM);
  EXPECT_EQ(endings[4].signal, SIGKILL);
}

TEST(WorldProcs, LeavesNoProcessBehind) {
  pid_t pid = 0;
  {
    Processes processes;
    pid = processes.start([] {
      std::this_thread::sleep_for(std::chrono::seconds(60));
      return 0;
    });
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_NE(::kill(pid, 0), 0);
}

}  // namespace
}  // namespace trireme::testing
