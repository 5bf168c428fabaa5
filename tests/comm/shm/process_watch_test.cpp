#include "trireme/comm/shm/process_watch.h"

#include <signal.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

bool becomes_dead(ProcessWatch& watch, int rank) {
  const Deadline deadline = Deadline::after(std::chrono::seconds(5));
  while (!deadline.expired()) {
    if (watch.is_dead(rank))
      return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

TEST(ProcessWatch, TakesARankThatHasNotComeForAlive) {
  const auto segment = Segment::create(2);
  segment->claim(0);
  ProcessWatch watch(segment);
  EXPECT_FALSE(watch.is_dead(0));
  EXPECT_FALSE(watch.is_dead(1));
}

TEST(ProcessWatch, CannotJudgeAnotherPidNamespace) {
  const auto segment = Segment::create(1);
  segment->claim(0);
  segment->header().process(0).pid = 1 << 30;
  segment->header().process(0).pid_namespace += 1;
  ProcessWatch watch(segment);
  EXPECT_FALSE(watch.is_dead(0));
}

TEST(ProcessWatch, SeesThroughAPidThatWasGivenAway) {
  const auto segment = Segment::create(1);
  segment->claim(0);
  segment->header().process(0).start_time -= 1;
  ProcessWatch watch(segment);
  EXPECT_TRUE(watch.is_dead(0));
}

TEST(ProcessWatchProcs, NoticesAKilledProcessThoughNobodyHasReapedIt) {
  const auto segment = Segment::create(2);
  ProcessWatch watch(segment);
  testing::Processes processes;
  processes.start([&] {
    segment->claim(1);
    std::this_thread::sleep_for(std::chrono::seconds(60));
    return 0;
  });
  while (segment->header().process(1).state.load() != ProcessSlot::Attached)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_FALSE(watch.is_dead(1));
  processes.kill(0, SIGKILL);
  EXPECT_TRUE(becomes_dead(watch, 1));
}

}  // namespace
}  // namespace trireme::comm
