#include "trireme/comm/shm/process_watch.h"

#include <signal.h>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using Ranks = std::vector<int>;

bool becomes_dead(ProcessWatch& watch, int rank) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  while (!deadline.expired()) {
    if (watch.find_dead() == Ranks{rank})
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

/// Starts a process that takes rank 1's place and stays; waits until it is there.
void start_rank_one(
    testing::Processes& processes, const std::shared_ptr<Segment>& segment) {
  processes.start([&segment] {
    segment->claim(1);
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  });
  const Deadline deadline = Deadline::after(std::chrono::seconds(20));
  while (segment->header().process(1).state.load() != ProcessSlot::Attached &&
         !deadline.expired())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(ProcessWatch, TakesARankThatHasNotComeForAlive) {
  const auto segment = Segment::create(2);
  segment->claim(0);
  ProcessWatch watch(segment);
  EXPECT_EQ(watch.find_dead(), Ranks{});
}

TEST(ProcessWatch, KnowsFromTheLauncherThatARankWillNotCome) {
  const auto segment = Segment::create(3);
  segment->claim(0);
  RankRoll roll = RankRoll::create("job", 3);
  ProcessWatch watch(segment, roll);
  EXPECT_EQ(watch.find_dead(), Ranks{});
  roll.set_ended(2);
  EXPECT_EQ(watch.find_dead(), Ranks{2});
  EXPECT_EQ(watch.find_dead(), Ranks{2});
}

TEST(ProcessWatch, CannotJudgeAnotherPidNamespace) {
  const auto segment = Segment::create(1);
  segment->claim(0);
  segment->header().process(0).pid = 1 << 30;
  segment->header().process(0).pid_namespace += 1;
  ProcessWatch watch(segment);
  EXPECT_TRUE(watch.sees_all()) << "as far as it knows";
  EXPECT_EQ(watch.find_dead(), Ranks{});
  EXPECT_FALSE(watch.sees_all());
}

TEST(ProcessWatch, SeesThroughAPidThatWasGivenAway) {
  const auto segment = Segment::create(1);
  segment->claim(0);
  segment->header().process(0).pid = 1;
  ProcessWatch watch(segment);
  EXPECT_EQ(watch.find_dead(), Ranks{0});
}

// Without descriptors neither a pidfd nor /proc can be opened: the rank may well live.
TEST(ProcessWatchProcs, TakesARankForAliveThatItCannotLookAt) {
  const auto segment = Segment::create(2);
  testing::Processes processes;
  start_rank_one(processes, segment);
  processes.start([&segment] {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    ProcessWatch watch(segment);
    for (int i = 0; i < 3; ++i)
      EXPECT_EQ(watch.find_dead(), Ranks{});
    EXPECT_FALSE(watch.sees_all());
    ::kill(segment->header().process(1).pid, SIGKILL);
    return 0;
  });
  const auto endings = processes.wait(std::chrono::seconds(20));
  EXPECT_EQ(endings[0].signal, SIGKILL);
  EXPECT_EQ(endings[1].exit_code, 0);
}

TEST(ProcessWatchProcs, NoticesADeathAlsoWithoutDescriptors) {
  const auto segment = Segment::create(2);
  testing::Processes processes;
  start_rank_one(processes, segment);
  const pid_t rank_one = processes.pid(0);
  processes.start([&segment, rank_one] {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    ::setrlimit(RLIMIT_NOFILE, &none);
    ProcessWatch watch(segment);
    EXPECT_EQ(watch.find_dead(), Ranks{});
    ::kill(rank_one, SIGKILL);
    return becomes_dead(watch, 1) ? 0 : 1;
  });
  // Reaps the first: only then is its pid free, which is all that can be seen.
  const auto endings = processes.wait(std::chrono::seconds(20));
  EXPECT_EQ(endings[1].exit_code, 0);
}

TEST(ProcessWatchProcs, NoticesAKilledProcessThoughNobodyHasReapedIt) {
  const auto segment = Segment::create(2);
  ProcessWatch watch(segment);
  testing::Processes processes;
  start_rank_one(processes, segment);
  EXPECT_EQ(watch.find_dead(), Ranks{});
  processes.kill(0, SIGKILL);
  EXPECT_TRUE(becomes_dead(watch, 1));
}

}  // namespace
}  // namespace trireme::comm
