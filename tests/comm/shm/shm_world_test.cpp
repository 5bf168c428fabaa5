// Worlds of processes: how they start, fail and die.
#include "trireme/comm/shm/shm_world.h"

#include <ctime>
#include <iostream>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "trireme/comm/channel.h"
#include "trireme/comm/collectives.h"
#include "trireme/comm/init.h"
#include "trireme/core/error.h"
#include "trireme/testing/check.h"
#include "trireme/testing/world.h"

namespace trireme::comm {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::contains;
using testing::join_job;
using testing::message_of;
using testing::Processes;
using Clock = std::chrono::steady_clock;

std::string path_of(const std::string& job) {
  return text(kSegmentFolder, "/", segment_name({.master_port = 1, .run_id = job}));
}
bool path_exists(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0;
}

void expect_all_well(Processes& processes, seconds limit = seconds(30)) {
  for (const auto& ending : processes.wait(limit)) {
    EXPECT_EQ(ending.exit_code, 0);
    EXPECT_EQ(ending.signal, 0);
  }
}

TEST(ShmWorldProcs, TakesItsNameAwayOnceAllHaveCome) {
  const std::string job = testing::fresh_job_name();
  Processes processes;
  processes.start_ranks(job, 3, [&](const Group& world) {
    barrier(world);
    EXPECT_FALSE(path_exists(path_of(job)));
    EXPECT_EQ(world.backend(), "shm");
  });
  expect_all_well(processes);
}

// A rank that is through with its first world must not find the name of it again.
TEST(ShmWorldProcs, MayBeStartedAgainAndAgainUnderOneName) {
  const std::string job = testing::fresh_job_name();
  Processes processes;
  for (int rank = 0; rank < 3; ++rank)
    processes.start([&, rank] {
      for (int round = 0; round < 50; ++round) {
        const Group world = join_job(job, rank, 3, seconds(20));
        if (round % 3 == rank)
          std::this_thread::sleep_for(milliseconds(1));
      }
      return 0;
    });
  expect_all_well(processes, seconds(60));
}

std::chrono::nanoseconds cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(ShmWorldProcs, SixtyFourRanksThatWaitForOneCostLittle) {
  constexpr auto kLate = seconds(2);
  const testing::SharedNumber spent;
  Processes processes;
  processes.start_ranks(testing::fresh_job_name(), 64, [&](const Group& world) {
    barrier(world);
    const auto before = cpu_time();
    if (world.rank() == 0)
      std::this_thread::sleep_for(kLate);
    barrier(world);
    *spent += (cpu_time() - before).count();
  });
  expect_all_well(processes, seconds(60));
  const double share = static_cast<double>(*spent) /
                       static_cast<double>(std::chrono::nanoseconds(kLate).count());
  std::cout << "64 ranks took " << 100 * share << " % of one core while they waited\n";
  EXPECT_LT(share, 0.05);
}

TEST(ShmWorldProcs, NamesTheRanksThatNeverCame) {
  const std::string job = testing::fresh_job_name();
  Processes processes;
  for (const int rank : {0, 2})
    processes.start([&, rank] {
      const std::string what =
          message_of<TimeoutError>([&] { join_job(job, rank, 4, milliseconds(600)); });
      EXPECT_TRUE(contains(what, "ranks 1 and 3 did not come"));
      return 0;
    });
  expect_all_well(processes);
  EXPECT_FALSE(path_exists(path_of(job)));
}

TEST(ShmWorldProcs, LeavesNothingWhenAllAreKilled) {
  const std::string job = testing::fresh_job_name();
  Processes processes;
  processes.start_ranks(job, 3, [](const Group& world) {
    const at::Tensor x = world.allocate({1 << 20}, at::kFloat);
    for (;;)
      all_reduce(world, x);
  });
  std::this_thread::sleep_for(milliseconds(300));
  for (size_t i = 0; i < 3; ++i)
    processes.kill(i, SIGKILL);
  for (const auto& ending : processes.wait(seconds(10)))
    EXPECT_EQ(ending.signal, SIGKILL);
  EXPECT_FALSE(path_exists(path_of(job)));
}

TEST(ShmWorldProcs, AnExceptionThatLeavesARankWakesTheOthers) {
  const std::string job = testing::fresh_job_name();
  Processes processes;
  for (int rank = 0; rank < 3; ++rank)
    processes.start([&, rank] {
      const auto start = Clock::now();
      try {
        const Group world = join_job(job, rank, 3, seconds(20));
        if (rank == 1)
          throw std::out_of_range("overboard");
        barrier(world);
        ADD_FAILURE() << "no error on rank " << rank;
      } catch (const PeerError& error) {
        EXPECT_EQ(error.rank(), 1);
        EXPECT_NE(rank, 1);
        EXPECT_LT(Clock::now() - start, seconds(5));
      } catch (const std::out_of_range&) {
        EXPECT_EQ(rank, 1);
      }
      return 0;
    });
  expect_all_well(processes);
}

TEST(ShmWorldProcs, AKilledRankIsNoticedWithinTwoSeconds) {
  Processes processes;
  processes.start_ranks(testing::fresh_job_name(), 4, [](const Group& world) {
    barrier(world);
    if (world.rank() == 2)
      ::raise(SIGKILL);
    const auto start = Clock::now();
    try {
      if (world.rank() == 3)
        Channel(world, {2, 3}).receive();  // a message that never comes
      else
        barrier(world);
      ADD_FAILURE() << "no error on rank " << world.rank();
    } catch (const PeerError& error) {
      EXPECT_EQ(error.rank(), 2);
      EXPECT_TRUE(contains(error.what(), "ended without leaving"));
    }
    EXPECT_LT(Clock::now() - start, seconds(2));
    EXPECT_THROW(barrier(world), PeerError);
    EXPECT_TRUE(
        contains(message_of<PeerError>([&] { world.renew(); }), "rank 2 is gone"));
  });
  const auto endings = processes.wait(seconds(30));
  for (size_t rank = 0; rank < 4; ++rank)
    EXPECT_EQ(endings[rank].exit_code, rank == 2 ? -1 : 0);
}

TEST(ShmWorldProcs, ExchangeNoticesAKilledRank) {
  Processes processes;
  processes.start_ranks(testing::fresh_job_name(), 2, [](const Group& world) {
    barrier(world);
    if (world.rank() == 1)
      ::raise(SIGKILL);
    const auto start = Clock::now();
    EXPECT_THROW(exchange({}, {Channel(world, {1, 0})}), PeerError);
    EXPECT_LT(Clock::now() - start, seconds(2));
  });
  EXPECT_EQ(processes.wait(seconds(30))[0].exit_code, 0);
}

TEST(ShmWorldProcs, NothingIsLeftWhenRankZeroDiesAtTheStart) {
  const std::string job = testing::fresh_job_name();
  Processes processes;
  for (int rank = 0; rank < 2; ++rank)
    processes.start([&, rank] {
      EXPECT_THROW(join_job(job, rank, 3, seconds(20)), PeerError);
      return 0;
    });
  std::this_thread::sleep_for(milliseconds(300));
  EXPECT_TRUE(path_exists(path_of(job)));
  processes.kill(0, SIGKILL);
  EXPECT_EQ(processes.wait(seconds(10))[1].exit_code, 0);
  EXPECT_FALSE(path_exists(path_of(job)));
}

TEST(ShmWorldProcs, AStalledRankIsATimeoutThatNamesIt) {
  Processes processes;
  processes.start_ranks(testing::fresh_job_name(), 3, [](const Group& world) {
    barrier(world);
    if (world.rank() == 1)
      ::raise(SIGSTOP);
    const std::string what = message_of<TimeoutError>(
        [&] { barrier(world, {.timeout = milliseconds(300)}); });
    EXPECT_TRUE(contains(what, "rank 1 did not come"));
  });
  std::this_thread::sleep_for(milliseconds(1500));
  processes.kill(1, SIGCONT);
  expect_all_well(processes);
}

/// Replaces /dev/shm by a small one, for this process and its children only.
bool shrink_shared_memory(const char* size) {
  return ::unshare(CLONE_NEWNS) == 0 &&
         ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         ::mount("tmpfs", kSegmentFolder, "tmpfs", 0, size) == 0;
}

TEST(ShmWorldProcs, ATooSmallSharedMemoryIsAnErrorBeforeAnythingIsLost) {
  if (geteuid() != 0)
    GTEST_SKIP() << "only root can mount a small /dev/shm";
  Processes outer;
  outer.start([] {
    if (!shrink_shared_memory("size=6m"))
      throw std::runtime_error("cannot mount");
    testing::run_world(testing::Backend::Shm, 2, [](const Group& world) {
      const std::string what =
          message_of<InvalidArgument>([&] { world.allocate({8 << 20}, at::kByte); });
      EXPECT_TRUE(contains(what, "of 6144 KiB free"));
      const Channel edge(world, {world.rank(), 1 - world.rank()});
      const Channel back(world, {1 - world.rank(), world.rank()});
      edge.send({.header = {.word = 1}});
      EXPECT_THROW(
          edge.send({.tensors = {at::zeros({8 << 20}, at::kByte)}}), InvalidArgument);
      edge.send({.header = {.word = 2}});
      EXPECT_EQ(back.receive().header.word, 1);
      EXPECT_EQ(back.receive().header.word, 2);
      at::Tensor large = at::ones({3 << 20});
      all_reduce(world, large);
      EXPECT_EQ(large[123456].item<float>(), 2.0F);
    });
    return 0;
  });
  outer.start([] {
    if (!shrink_shared_memory("size=64k"))
      throw std::runtime_error("cannot mount");
    const std::string what = message_of<InvalidArgument>(
        [] { join_job(testing::fresh_job_name(), 0, 2, seconds(5)); });
    EXPECT_TRUE(contains(what, "enlarge it"));
    return 0;
  });
  expect_all_well(outer, seconds(60));
}

TEST(ShmWorldProcs, TwoJobsDoNotMeet) {
  Processes processes;
  for (const int job : {0, 1})
    processes.start_ranks(testing::fresh_job_name(), 2, [job](const Group& world) {
      at::Tensor x = at::full({1}, job, at::kInt);
      all_reduce(world, x);
      EXPECT_EQ(x.item<int>(), job * 2);
    });
  expect_all_well(processes);
}

TEST(ShmWorld, RefusesRanksOfOtherHosts) {
  EXPECT_THROW(
      start_shm(
          {.env = {.world_size = 4, .local_world_size = 2},
           .deadline = Deadline::after(seconds(1))}),
      InvalidArgument);
}

}  // namespace
}  // namespace trireme::comm
