// The caches of threads: where they come from, and what happens at the end of a thread
// and around a real fork().
#include "trireme/memory/process_pool.h"

#include <atomic>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <gtest/gtest.h>

namespace trireme::memory {
namespace {

class ProcessPoolCase : public ::testing::Test {
 protected:
  ProcessPoolCase() {
    process_pool().set_limits({.cached_bytes = 64 << 20, .largest_bytes = 64 << 20});
  }
};

using ProcessPoolRanks = ProcessPoolCase;
using ProcessPoolProcs = ProcessPoolCase;

Block* take(std::size_t bytes) {
  return process_pool().take(cache_for_taking(), bytes);
}
void give_back(Block* block) {
  process_pool().give_back(cache_for_giving_back(), *block);
}

TEST_F(ProcessPoolRanks, EachThreadHasItsCache) {
  ThreadCache* mine = cache_for_taking();
  ASSERT_NE(mine, nullptr);
  EXPECT_EQ(cache_for_taking(), mine);
  EXPECT_EQ(cache_for_giving_back(), mine);
  std::thread([mine] {
    EXPECT_EQ(cache_for_giving_back(), nullptr) << "freeing alone needs none";
    EXPECT_NE(cache_for_taking(), mine);
  }).join();
}

TEST_F(ProcessPoolRanks, ThreadsThatFollowEachOtherShareOneCache) {
  ThreadCache* first = nullptr;
  std::thread([&] {
    first = cache_for_taking();
    give_back(take(123'456));
  }).join();
  EXPECT_FALSE(first->owned.load());
  std::thread([&] {
    EXPECT_EQ(cache_for_taking(), first);
    const std::int64_t hits = first->hits();
    give_back(take(123'456));
    EXPECT_EQ(first->hits(), hits + 1);
  }).join();
}

// Is destroyed after the cache of its thread was left to others, because it was made
// before.
struct LateUser {
  ~LateUser() {
    EXPECT_EQ(cache_for_taking(), nullptr);
    give_back(block);
    give_back(take(4000));
  }
  Block* block = nullptr;
};

TEST_F(ProcessPoolRanks, AThreadMayFreeAfterItsCacheHasGone) {
  const std::int64_t before = process_pool().stats().system_bytes;
  std::thread([] {
    thread_local LateUser late;
    late.block = take(std::size_t{5} << 20);
  }).join();
  EXPECT_EQ(process_pool().stats().system_bytes, before);
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers have allocators of their own, whose locks a child may find held for ever.

// What a child does with the caches that it has inherited, as an exit code.
int use_inherited_caches() {
  alarm(60);  // a lock that nobody will ever open must not stop the test
  for (std::size_t i = 0; i < 100; ++i) {
    give_back(take(64 + i * 1000));
  }
  // Its threads take over the caches of those that it does not have.
  std::thread([] { give_back(take(300'000)); }).join();
  process_pool().release_cached(cache_for_giving_back());
  return process_pool().stats().cached_bytes == 0 ? 0 : 1;
}

TEST_F(ProcessPoolProcs, ForkWorksWhileThreadsAllocate) {
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (std::size_t id = 0; id < 3; ++id) {
    threads.emplace_back([&done, id] {
      for (std::size_t i = 0; !done.load(); ++i) {
        Block* small = take(64 + (i + id) % 5000);
        give_back(take(300'000));
        give_back(small);
        if (i % 64 == 0) {
          process_pool().release_cached(cache_for_giving_back());
        }
      }
    });
  }
  for (int round = 0; round < 30 && !HasFailure(); ++round) {
    const pid_t child = fork();
    if (child == 0) {
      std::_Exit(use_inherited_caches());
    }
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0) << "signal " << WTERMSIG(status);
  }
  done.store(true);
  for (std::thread& thread : threads) {
    thread.join();
  }
}
#endif

}  // namespace
}  // namespace trireme::memory
