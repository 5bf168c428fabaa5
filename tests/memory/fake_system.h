// A system with as little memory as a test wants, and a pool on it.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include "trireme/memory/pool.h"

namespace trireme::memory {

/// One at a time: SystemMemory is plain functions. Proves at its end that all memory
/// has come back.
class FakeSystem {
 public:
  FakeSystem() {
    used.store(0);
    limit.store(std::numeric_limits<std::size_t>::max());
    trims.store(0);
  }
  ~FakeSystem() { EXPECT_EQ(used.load(), 0u) << "bytes have leaked"; }

  static SystemMemory functions() {
    return {
        .allocate = allocate, .release = release, .trim = []() noexcept { ++trims; }};
  }

  static inline std::atomic<std::size_t> used{0};
  static inline std::atomic<std::size_t> limit{0};
  static inline std::atomic<int> trims{0};

 private:
  static void* allocate(std::size_t bytes) noexcept {
    if (used.fetch_add(bytes) + bytes > limit.load()) {
      used.fetch_sub(bytes);
      return nullptr;
    }
    return system_memory().allocate(bytes);
  }
  static void release(void* memory, std::size_t bytes) noexcept {
    used.fetch_sub(bytes);
    system_memory().release(memory, bytes);
  }
};

inline constexpr std::size_t kMany = std::size_t{1} << 40;
inline constexpr std::int64_t kMiB = 1 << 20;  // what a cache reports at once

/// A pool with room for all and the caches of two threads, both in the hands of the
/// test.
class PoolCase : public ::testing::Test {
 protected:
  // A block that is given back at once.
  void touch(ThreadCache* cache, std::size_t bytes) {
    pool_.give_back(cache, *pool_.take(cache, bytes));
  }

  const FakeSystem system_;
  Pool pool_{{.cached_bytes = kMany, .largest_bytes = kMany}, FakeSystem::functions()};
  ThreadCache* a_ = pool_.adopt();
  ThreadCache* b_ = pool_.adopt();
};

}  // namespace trireme::memory
