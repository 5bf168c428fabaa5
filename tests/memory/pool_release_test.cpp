// Limits, pressure, release and forks: what reaches into the caches of other threads.
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

#include "fake_system.h"
#include "trireme/memory/pool.h"

namespace trireme::memory {
namespace {

using PoolReleaseUnit = PoolCase;
using PoolReleaseProcs = PoolCase;

TEST_F(PoolReleaseUnit, KeepsNoMoreThanItsLimit) {
  pool_.set_limits({.cached_bytes = 4 * kMiB, .largest_bytes = kMany});
  std::vector<Block*> blocks;
  for (int i = 0; i < 10; ++i) {
    blocks.push_back(pool_.take(a_, kMiB));
  }
  for (Block* block : blocks) {
    pool_.give_back(a_, *block);
    ASSERT_LE(pool_.stats().cached_bytes, 4 * kMiB);
  }
  EXPECT_EQ(pool_.stats().cached_bytes, 4 * kMiB);
  touch(b_, kMiB);
  pool_.give_back(a_, *pool_.take(b_, kMiB));
  EXPECT_EQ(pool_.stats().cached_bytes, 4 * kMiB) << "also when others give back";
  for (std::size_t i = 0; i < 2000; ++i) {
    touch(b_, 64 * (i + 1));
  }
  EXPECT_LE(pool_.stats().cached_bytes, 4 * kMiB + ThreadCache::kReportStep);
}

TEST_F(PoolReleaseUnit, ALimitOfNothingKeepsNothing) {
  pool_.set_limits({.cached_bytes = 0, .largest_bytes = kMany});
  touch(a_, 1);
  touch(a_, kMiB);
  EXPECT_EQ(FakeSystem::used.load(), 0u);
}

TEST_F(PoolReleaseUnit, ForgetsTheSizesNotUsedForLongest) {
  pool_.set_limits({.cached_bytes = 4 * kMiB, .largest_bytes = kMany});
  touch(a_, kMiB);
  touch(a_, 2 * kMiB);
  touch(a_, kMiB);
  touch(a_, 3 * kMiB / 2);  // there is room for two of the three
  EXPECT_EQ(pool_.stats().cached_bytes, 5 * kMiB / 2);
  const std::int64_t hits = pool_.stats().cache_hits;
  touch(a_, kMiB);
  touch(a_, 3 * kMiB / 2);
  EXPECT_EQ(pool_.stats().cache_hits, hits + 2);
}

TEST_F(PoolReleaseUnit, WhatEndedThreadsLeftGoesFirst) {
  pool_.set_limits({.cached_bytes = 4 * kMiB, .largest_bytes = kMany});
  touch(b_, 2 * kMiB);
  touch(a_, kMiB);
  pool_.retire(*b_);
  touch(a_, 3 * kMiB / 2);
  EXPECT_EQ(pool_.stats().cached_bytes, 5 * kMiB / 2);
}

TEST_F(PoolReleaseUnit, AThreadThatHoardsIsNotHeededForEver) {
  pool_.set_limits({.cached_bytes = 4 * kMiB, .largest_bytes = kMany});
  std::vector<Block*> blocks;
  for (int i = 0; i < 4; ++i) {
    blocks.push_back(pool_.take(b_, kMiB));
  }
  for (Block* block : blocks) {
    pool_.give_back(b_, *block);
  }
  // What b_ keeps leaves no room for a_, but not for long.
  for (int i = 0; i < 10; ++i) {
    touch(a_, 2 * kMiB);
  }
  EXPECT_EQ(pool_.stats().cached_bytes, 2 * kMiB);
  EXPECT_GE(pool_.stats().cache_hits, 5);
}

TEST_F(PoolReleaseUnit, PressureReleasesTheCachesOfAllThreads) {
  FakeSystem::limit = 10'000;
  touch(a_, 4096);
  touch(b_, 5000);
  Block* block = pool_.take(a_, 8192);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(FakeSystem::trims.load(), 1);
  EXPECT_EQ(pool_.stats().cached_bytes, 0);
  EXPECT_EQ(pool_.take(b_, 8192), nullptr) << "there is no more, and nothing breaks";
  pool_.give_back(a_, *block);
  block = pool_.take(a_, 8192);
  EXPECT_NE(block, nullptr);
  pool_.give_back(a_, *block);
}

TEST_F(PoolReleaseUnit, ReleaseGivesEverythingBack) {
  Block* kept = pool_.take(a_, 100);
  touch(a_, 1000);
  touch(b_, 2000);
  pool_.give_back(b_, *pool_.take(a_, 3000));
  touch(a_, 3 << 20);
  pool_.retire(*b_);
  pool_.release_cached(a_);
  const PoolStats stats = pool_.stats();
  EXPECT_EQ(stats.cached_bytes, 0);
  EXPECT_EQ(stats.system_bytes, 128 + 64);
  EXPECT_EQ(FakeSystem::used.load(), 128u + 64u);
  pool_.give_back(a_, *kept);
}

TEST_F(PoolReleaseProcs, AChildTakesOverTheCachesOfThreadsThatItDoesNotHave) {
  touch(a_, 1000);
  touch(b_, 2000);
  pool_.give_back(b_, *pool_.take(a_, 3000));
  const auto fork_here = [this] {
    alarm(60);
    pool_.before_fork(a_);
    pool_.after_fork_in_child(a_);
    const bool same = pool_.stats().cached_bytes == 1024 + 2048 + 3072;
    const bool adopted = pool_.adopt() == b_;
    touch(b_, 2000);
    touch(a_, 3000);
    pool_.release_cached(a_);
    std::_Exit(same && adopted && pool_.stats().cache_hits == 2 ? 0 : 1);
  };
  EXPECT_EXIT(fork_here(), ::testing::ExitedWithCode(0), "");
  pool_.before_fork(a_);
  pool_.after_fork_in_parent();
  touch(b_, 2000);
  EXPECT_EQ(pool_.stats().cache_hits, 1);
}

// What a sandbox does.
bool forbid_membarrier() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog filter{.len = std::size(program), .filter = program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(PoolReleaseProcs, WithoutTheFenceOtherThreadsKeepTheirs) {
  touch(a_, 1000);
  touch(b_, 2000);
  const auto try_in_sandbox = [this] {
    alarm(60);
    if (!forbid_membarrier()) {
      std::_Exit(0);  // this is a sandbox already
    }
    pool_.release_cached(a_);
    const bool kept = pool_.stats().cached_bytes == 2048;
    pool_.before_fork(a_);
    pool_.after_fork_in_child(a_);
    const bool dropped = pool_.stats().cached_bytes == 0;
    touch(a_, 1000);
    touch(pool_.adopt(), 2000);
    std::_Exit(kept && dropped && pool_.stats().cached_bytes == 3072 ? 0 : 1);
  };
  EXPECT_EXIT(try_in_sandbox(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace trireme::memory
