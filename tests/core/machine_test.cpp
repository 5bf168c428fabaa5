// What is said about this machine is plausible, and processes are told apart.
#include "trireme/core/machine.h"

#include <algorithm>
#include <csignal>
#include <limits>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

TEST(Machine, HasAtLeastOneCore) {
  EXPECT_GE(available_cores(), 1);
  EXPECT_LE(available_cores(), static_cast<int>(sysconf(_SC_NPROCESSORS_CONF)));
}

TEST(Machine, CoresFollowTheAffinity) {
  // On a thread of its own, so that the other tests keep theirs.
  std::thread([] {
    cpu_set_t one;
    CPU_ZERO(&one);
    const int here = sched_getcpu();
    ASSERT_GE(here, 0);
    CPU_SET(static_cast<std::size_t>(here), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(available_cores(), 1);
    EXPECT_EQ(allowed_cpus(), std::vector<int>{here});
  }).join();
}

TEST(Machine, AllowedCpusAreTheKernels) {
  const auto cpus = allowed_cpus();
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(cpus.size(), static_cast<std::size_t>(CPU_COUNT(&set)));
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  for (const int id : cpus) {
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(id), &set)) << id;
  }
}

TEST(Machine, HasAName) {
  char name[256] = {};
  ASSERT_EQ(::gethostname(name, sizeof name - 1), 0);
  EXPECT_EQ(host_name(), name);
}

TEST(Machine, IsDescribed) {
  const Machine machine = describe_machine();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_EQ(machine.cores, available_cores());
  EXPECT_GT(machine.memory_bytes, std::uint64_t{1} << 20);
}

TEST(Machine, IsOneLineOfText) {
  const std::uint64_t memory = (std::uint64_t{47} << 30) / 2;
  EXPECT_EQ(
      to_string(Machine{.cpu = "AMD EPYC", .cores = 2, .memory_bytes = memory}),
      "AMD EPYC, 2 cores, 23.5 GiB");
  EXPECT_EQ(
      to_string(Machine{.cpu = "x86_64", .cores = 1, .memory_bytes = 0}),
      "x86_64, 1 core, unknown memory");
}

TEST(Machine, LoadIsNotNegative) {
  EXPECT_GE(load_average(), 0);
}

TEST(Machine, RoomForSharedMemoryIsKnown) {
  const SharedMemoryLimits limits = shared_memory_limits("/");
  EXPECT_GT(limits.total_bytes, 0u);
  EXPECT_LE(limits.free_bytes, limits.total_bytes);
}

TEST(Machine, AMissingFileSystemIsAnError) {
  try {
    shared_memory_limits("/no/such\nfolder");
    FAIL() << "nothing was thrown";
  } catch (const NotSupported& error) {
    EXPECT_STREQ(
        error.what(),
        "[core] expected a file system at \"/no/such\\nfolder\" for shared memory, got "
        "No "
        "such file or directory (errno 2); mount a tmpfs there, or run the ranks as "
        "threads");
  }
}

TEST(Machine, AProcessKeepsItsStartTime) {
  const auto mine = process_start_time(getpid());
  EXPECT_GT(mine, 0u);
  EXPECT_EQ(process_start_time(getpid()), mine);
  EXPECT_LE(process_start_time(getppid()), mine);
}

TEST(Machine, NoProcessHasNoStartTime) {
  EXPECT_EQ(process_start_time(0), 0u);
  EXPECT_EQ(process_start_time(-1), 0u);
  EXPECT_EQ(process_start_time(std::numeric_limits<pid_t>::max()), 0u);
}

TEST(Machine, AProcessThatHasEndedHasNoStartTime) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  EXPECT_GT(process_start_time(child), 0u);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(process_start_time(child), 0u) << "a zombie";
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(process_start_time(child), 0u) << "gone";
}

TEST(Machine, AProcessHasEndedWhenItIsAZombieGoneOrAnother) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  const auto start = process_start_time(child);
  EXPECT_FALSE(process_ended(child, start));
  EXPECT_FALSE(process_ended(child, 0)) << "whenever it started";
  EXPECT_TRUE(process_ended(child, start - 1)) << "the pid was given away";
  ASSERT_EQ(kill(child, SIGKILL), 0);
  siginfo_t info{};
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(process_ended(child, start)) << "a zombie";
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(process_ended(child, start)) << "gone";
  EXPECT_TRUE(process_ended(0, 0));
}

// In a child of its own: without descriptors nothing else would work here either.
TEST(Machine, AProcessThatCannotBeLookedAtHasNotEnded) {
  const auto start = process_start_time(getpid());
  const pid_t parent = getpid();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none{.rlim_cur = 0, .rlim_max = 0};
    setrlimit(RLIMIT_NOFILE, &none);
    _exit(process_start_time(parent) == 0 && !process_ended(parent, start) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Machine, ItsKernelHasANumber) {
  EXPECT_NE(kernel_number(), 0);
  EXPECT_EQ(kernel_number(), kernel_number());
}

TEST(Machine, RanksShareTheCoresAndHaveAtLeastOneThread) {
  EXPECT_EQ(threads_per_rank(16, 4), 4);
  EXPECT_EQ(threads_per_rank(2, 2), 1);
  EXPECT_EQ(threads_per_rank(3, 2), 1);
  EXPECT_EQ(threads_per_rank(2, 8), 1);
  EXPECT_EQ(threads_per_rank(4, 0), 4);
}

TEST(Machine, MemoryIsAtMostTheMachines) {
  EXPECT_EQ(describe_machine().memory_bytes, available_memory_bytes());
  const auto pages = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES));
  EXPECT_LE(
      available_memory_bytes(), pages * static_cast<std::uint64_t>(getpagesize()));
}

}  // namespace
}  // namespace trireme
