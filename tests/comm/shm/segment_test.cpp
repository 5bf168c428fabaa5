#include "trireme/comm/shm/segment.h"

#include <cstdio>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "../../core/alarm_scope.h"
#include "trireme/core/error.h"
#include "trireme/core/machine.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using testing::contains;
using testing::message_of;

std::string fresh_name() {
  return segment_name({.run_id = testing::fresh_job_name()});
}
bool exists(const std::string& name) {
  struct stat status {};
  return ::lstat((std::string(kSegmentFolder) + "/" + name).c_str(), &status) == 0;
}
Deadline soon() {
  return Deadline::after(milliseconds(50));
}

TEST(Segment, HasNoNameUntilItIsPublishedAndNoneAtTheEnd) {
  const std::string name = fresh_name();
  {
    const auto segment = Segment::create(2);
    EXPECT_FALSE(exists(name));
    segment->publish(name);
    EXPECT_TRUE(exists(name));
    struct stat status {};
    ASSERT_EQ(::lstat((std::string(kSegmentFolder) + "/" + name).c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0600U);
    EXPECT_EQ(status.st_uid, geteuid());
  }
  EXPECT_FALSE(exists(name));
}

TEST(Segment, IsSharedWithWhoeverAttaches) {
  const std::string name = fresh_name();
  const auto first = Segment::create(2);
  first->claim(0);
  first->publish(name);
  const auto second = Segment::attach(name, 1, 2, soon());
  first->header().control = 777;
  EXPECT_EQ(second->header().control, 777U);
  EXPECT_EQ(first->header().process(1).pid, getpid());
  first->unlink();
  second->header().control = 778;
  EXPECT_EQ(first->header().control, 778U);
}

TEST(Segment, TakesNoMemoryUntilItIsCommitted) {
  const auto segment = Segment::create(4);
  EXPECT_GE(segment->bytes(), size_t{4} << 30);
  segment->commit(segment->header().regions_begin, 1 << 20);
  std::fill_n(segment->base() + segment->header().regions_begin, 1 << 20, std::byte{1});
}

// The flags of the mapping at `address`, as the kernel lists them.
std::string flags_of_mapping(const std::byte* address) {
  std::ifstream smaps("/proc/self/smaps");
  const auto wanted = reinterpret_cast<uintptr_t>(address);
  bool inside = false;
  for (std::string line; std::getline(smaps, line);) {
    uintptr_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2)
      inside = wanted >= begin && wanted < end;
    else if (inside && line.starts_with("VmFlags:"))
      return line + " ";
  }
  return "";
}

TEST(Segment, IsNoPartOfACoreDump) {
  const auto segment = Segment::create(2);
  EXPECT_TRUE(contains(flags_of_mapping(segment->base()), " dd "));
}

// A signal makes tmpfs undo what one call has taken; in one piece this would never end.
// In a process of its own, so that one that does not end can be killed.
TEST(SegmentProcs, CommitsAlsoUnderARainOfSignals) {
  if (shared_memory_limits(kSegmentFolder).free_bytes < uint64_t{1} << 30)
    GTEST_SKIP() << "there is too little shared memory";
  testing::Processes processes;
  processes.start([] {
    const auto segment = Segment::create(1);
    const AlarmScope alarms(std::chrono::milliseconds(2));
    segment->commit(segment->header().regions_begin, uint64_t{256} << 20);
    return 0;
  });
  EXPECT_EQ(processes.wait(std::chrono::seconds(30))[0].exit_code, 0);
}

TEST(Segment, RefusesTheSameRankTwice) {
  const auto segment = Segment::create(2);
  segment->claim(1);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { segment->claim(1); }),
      text("rank 1, got a second (the first has pid ", getpid())));
}

TEST(Segment, RefusesAnotherWorldSize) {
  const std::string name = fresh_name();
  const auto segment = Segment::create(3);
  segment->publish(name);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { Segment::attach(name, 1, 4, soon()); }),
      "a world of 3 ranks, as rank 0 started it, got WORLD_SIZE=4"));
}

TEST(Segment, RefusesADamagedOne) {
  const std::string name = fresh_name();
  const auto segment = Segment::create(3);
  segment->publish(name);
  segment->header().region_bytes += 4096;
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { Segment::attach(name, 1, 3, soon()); }),
      "damaged"));
}

TEST(Segment, RefusesANameThatALivingJobUses) {
  const std::string name = fresh_name();
  const auto first = Segment::create(1);
  first->publish(name);
  const auto second = Segment::create(1);
  EXPECT_TRUE(contains(
      message_of<InvalidArgument>([&] { second->publish(name); }),
      text("process ", getpid(), " uses it")));
}

TEST(Segment, RefusesANameThatAnotherUserHolds) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can give a file away";
  const std::string name = fresh_name();
  const auto first = Segment::create(1);
  first->publish(name);
  ASSERT_EQ(::chown((std::string(kSegmentFolder) + "/" + name).c_str(), 4242, 4242), 0);
  const auto second = Segment::create(1);
  for (const auto& what :
       {message_of<InvalidArgument>([&] { second->publish(name); }),
        message_of<InvalidArgument>([&] { Segment::attach(name, 0, 1, soon()); })})
    EXPECT_TRUE(contains(what, "user 4242's"));
}

TEST(Segment, AsksWhetherToWaitOn) {
  int asked = 0;
  const auto attach = [&asked] {
    Segment::attach(fresh_name(), 1, 2, Deadline::after(std::chrono::minutes(1)), [&] {
      if (++asked == 3)
        throw PeerError(7, "[comm] a test ends it");
    });
  };
  EXPECT_TRUE(contains(message_of<PeerError>(attach), "a test ends it"));
  EXPECT_EQ(asked, 3);
}

// Rank 0 has come and given up, because rank 2 had been killed: nothing is left of the
// world when rank 1 comes.
TEST(Segment, NamesTheRankThatEndedBeforeRankZero) {
  RankRoll roll = RankRoll::create("job", 3);
  roll.set_ended(2);
  roll.set_ended(0);
  try {
    Segment::attach(fresh_name(), 1, 3, Deadline::after(std::chrono::minutes(1)), [&] {
      check_start(roll);
    });
    FAIL() << "there is no world";
  } catch (const PeerError& error) {
    EXPECT_EQ(error.rank(), 2);
    EXPECT_TRUE(contains(
        error.what(), "expected rank 2 to join the world, but its process has ended"));
  }
}

TEST(Segment, NamesRankZeroWhenItDoesNotCome) {
  EXPECT_TRUE(contains(
      message_of<TimeoutError>([] { Segment::attach(fresh_name(), 1, 2, soon()); }),
      "expected rank 0 to start the world within 50 ms"));
}

/// Leaves a published segment behind, as a job does that is killed while it waits for
/// ranks.
void leave_stale(const std::string& name) {
  testing::Processes processes;
  processes.start([&] {
    const auto segment = Segment::create(2);
    segment->publish(name);
    ::raise(SIGKILL);
    return 0;
  });
  EXPECT_EQ(processes.wait(std::chrono::seconds(10))[0].signal, SIGKILL);
  EXPECT_TRUE(exists(name));
}

TEST(SegmentProcs, OfADeadJobIsReplaced) {
  const std::string name = fresh_name();
  leave_stale(name);
  const auto segment = Segment::create(3);
  segment->publish(name);
  EXPECT_EQ(Segment::attach(name, 1, 3, soon())->header().stamp.size, 3);
}

TEST(SegmentProcs, OfADeadJobIsPassedOverByOtherRanks) {
  const std::string name = fresh_name();
  leave_stale(name);
  std::thread rank_one([&] {
    const auto segment =
        Segment::attach(name, 1, 3, Deadline::after(std::chrono::seconds(10)));
    EXPECT_EQ(segment->header().stamp.size, 3);
  });
  std::this_thread::sleep_for(milliseconds(30));
  const auto segment = Segment::create(3);
  segment->publish(name);
  rank_one.join();
}

}  // namespace
}  // namespace trireme::comm
