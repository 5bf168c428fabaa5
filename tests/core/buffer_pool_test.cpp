// Buffers come back, are used again, stay within the cap and may outlive their pool.
#include "trireme/core/buffer_pool.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <optional>
#include <sys/resource.h>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

TEST(BufferPool, SizeClassesArePowersOfTwoWithQuarterSteps) {
  EXPECT_EQ(BufferPool::size_class(0), 256u);
  EXPECT_EQ(BufferPool::size_class(1), 256u);
  EXPECT_EQ(BufferPool::size_class(256), 256u);
  EXPECT_EQ(BufferPool::size_class(257), 320u);
  EXPECT_EQ(BufferPool::size_class(320), 320u);
  EXPECT_EQ(BufferPool::size_class(449), 512u);
  EXPECT_EQ(BufferPool::size_class(512), 512u);
  EXPECT_EQ(BufferPool::size_class(513), 640u);
  EXPECT_EQ(BufferPool::size_class((1 << 20) + 1), (5u << 20) / 4);
  EXPECT_EQ(BufferPool::size_class(BufferPool::kMaxBytes), BufferPool::kMaxBytes);
  EXPECT_EQ(BufferPool::size_class(BufferPool::kMaxBytes - 1), BufferPool::kMaxBytes);
}

TEST(BufferPool, SizeClassesCoverTheRequestAndWasteAtMostAQuarter) {
  for (std::size_t bytes = 257; bytes < (std::size_t{1} << 40); bytes += bytes / 7) {
    const std::size_t capacity = BufferPool::size_class(bytes);
    ASSERT_GE(capacity, bytes);
    ASSERT_LE(capacity, bytes + bytes / 4);
    ASSERT_EQ(BufferPool::size_class(capacity), capacity);
  }
}

TEST(BufferPool, GivesWritableMemoryOfTheSizeAskedFor) {
  BufferPool pool;
  const Buffer buffer = pool.take(1000);
  EXPECT_EQ(buffer.size(), 1000u);
  EXPECT_EQ(buffer.capacity(), 1024u);
  EXPECT_EQ(buffer.bytes().size(), 1000u);
  std::memset(buffer.data(), 7, buffer.capacity());
  EXPECT_EQ(buffer.bytes()[999], std::byte{7});
}

TEST(BufferPool, AlignsEveryBuffer) {
  for (std::size_t alignment : {std::size_t{8}, std::size_t{64}, std::size_t{4096}}) {
    BufferPool pool({.alignment = alignment});
    for (std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{300}}) {
      const Buffer buffer = pool.take(bytes);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(buffer.data()) % alignment, 0u);
    }
  }
}

TEST(BufferPool, ZeroBytesAreLegal) {
  BufferPool pool;
  const Buffer buffer = pool.take(0);
  EXPECT_EQ(buffer.size(), 0u);
  EXPECT_NE(buffer.data(), nullptr);
}

TEST(BufferPool, UsesABlockAgainForTheSameClass) {
  BufferPool pool;
  const std::byte* first = pool.take(1000).data();
  const Buffer again = pool.take(1020);
  EXPECT_EQ(again.data(), first);
  EXPECT_EQ(again.size(), 1020u);
  EXPECT_EQ(pool.stats().hits, 1u);
  EXPECT_EQ(pool.stats().misses, 1u);
}

TEST(BufferPool, CountsLiveAndCachedMemory) {
  BufferPool pool;
  std::optional<Buffer> a = pool.take(256);
  std::optional<Buffer> b = pool.take(1000);
  EXPECT_EQ(pool.stats().live_bytes, 256u + 1024u);
  EXPECT_EQ(pool.stats().live_buffers, 2u);
  EXPECT_EQ(pool.stats().cached_bytes, 0u);
  b.reset();
  EXPECT_EQ(pool.stats().live_bytes, 256u);
  EXPECT_EQ(pool.stats().live_buffers, 1u);
  EXPECT_EQ(pool.stats().cached_bytes, 1024u);
  EXPECT_EQ(pool.stats().cached_buffers, 1u);
}

TEST(BufferPool, TrimFreesTheCacheOnly) {
  BufferPool pool;
  const Buffer kept = pool.take(256);
  pool.take(1000);
  pool.take(5000);
  pool.trim();
  EXPECT_EQ(pool.stats().cached_bytes, 0u);
  EXPECT_EQ(pool.stats().cached_buffers, 0u);
  EXPECT_EQ(pool.stats().live_buffers, 1u);
}

TEST(BufferPool, CachesNoMoreThanItsCap) {
  BufferPool pool({.max_cached_bytes = 4096});
  {
    std::vector<Buffer> buffers;
    for (int i = 0; i < 10; ++i) {
      buffers.push_back(pool.take(1024));
    }
  }
  EXPECT_EQ(pool.stats().cached_bytes, 4096u);
  EXPECT_EQ(pool.stats().cached_buffers, 4u);
}

TEST(BufferPool, DoesNotCacheABlockAboveTheCap) {
  BufferPool pool({.max_cached_bytes = 4096});
  pool.take(1024);
  pool.take(8192);
  EXPECT_EQ(pool.stats().cached_bytes, 1024u) << "the small one must stay";
}

TEST(BufferPool, ForgetsTheSizesNotUsedForLongest) {
  BufferPool pool({.max_cached_bytes = 4096});
  pool.take(1024);
  pool.take(2048);
  pool.take(1024);
  pool.take(1536);  // the cache has room for two of the three
  const auto before = pool.stats();
  EXPECT_EQ(before.cached_bytes, 1024u + 1536u);
  pool.take(1024);
  pool.take(1536);
  EXPECT_EQ(pool.stats().hits, before.hits + 2);
}

TEST(BufferPool, ACapOfNothingCachesNothing) {
  BufferPool pool({.max_cached_bytes = 0});
  pool.take(0);
  EXPECT_EQ(pool.stats().cached_buffers, 0u);
  EXPECT_EQ(pool.stats().live_buffers, 0u);
}

TEST(BufferPool, MovingHandsTheBlockOver) {
  BufferPool pool;
  Buffer a = pool.take(100);
  const std::byte* data = a.data();
  Buffer b = std::move(a);
  EXPECT_EQ(b.data(), data);
  EXPECT_EQ(a.data(), nullptr);
  EXPECT_EQ(a.size(), 0u);
  EXPECT_EQ(pool.stats().live_buffers, 1u);
  b = pool.take(5000);
  EXPECT_EQ(pool.stats().live_buffers, 1u);
  EXPECT_EQ(pool.stats().cached_buffers, 1u) << "the first block went back";
  b = {};
  EXPECT_EQ(pool.stats().live_buffers, 0u);
}

TEST(BufferPool, AssigningABufferToItselfKeepsIt) {
  BufferPool pool;
  Buffer a = pool.take(100);
  Buffer& same = a;
  a = std::move(same);
  EXPECT_NE(a.data(), nullptr);
  EXPECT_EQ(a.size(), 100u);
}

TEST(BufferPool, BuffersMayOutliveThePool) {
  std::optional<BufferPool> pool(std::in_place);
  const Buffer buffer = pool->take(1000);
  pool.reset();
  std::memset(buffer.data(), 1, buffer.size());
}

TEST(BufferPool, RejectsAbsurdSizes) {
  BufferPool pool;
  EXPECT_THROW(pool.take(BufferPool::kMaxBytes + 1), InvalidArgument);
  try {
    pool.take(std::numeric_limits<std::size_t>::max());
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(
        error.what(),
        "[core] expected a buffer of at most 70368744177664 bytes, got "
        "18446744073709551615; look for a negative size or an overflow where it was "
        "computed");
  }
  EXPECT_EQ(pool.stats().live_buffers, 0u);
}

TEST(BufferPool, RejectsWrongAlignments) {
  for (std::size_t alignment :
       {std::size_t{0}, std::size_t{4}, std::size_t{48}, std::size_t{4} << 20}) {
    EXPECT_THROW(BufferPool({.alignment = alignment}), InvalidArgument) << alignment;
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers reserve terabytes and end the program instead of throwing.
TEST(BufferPool, ExhaustedMemoryFreesTheCacheAndIsCountedRight) {
  const auto take_too_much = [] {
    std::size_t pages = 0;  // what the process has mapped already
    std::ifstream("/proc/self/statm") >> pages;
    const rlim_t most = pages * 4096 + (std::size_t{1} << 30);
    const rlimit limit{.rlim_cur = most, .rlim_max = most};
    setrlimit(RLIMIT_AS, &limit);
    BufferPool pool;
    pool.take(1000);
    try {
      pool.take(std::size_t{8} << 30);
    } catch (const std::bad_alloc&) {
      const auto stats = pool.stats();
      std::_Exit(stats.cached_bytes == 0 && stats.live_buffers == 0 ? 0 : 1);
    }
    std::_Exit(2);
  };
  EXPECT_EXIT(take_too_much(), ::testing::ExitedWithCode(0), "");
}
#endif

TEST(BufferPool, ThreadsNeverShareABlock) {
  BufferPool pool({.max_cached_bytes = 64 << 10});
  std::vector<std::thread> threads;
  for (int id = 0; id < 4; ++id) {
    threads.emplace_back([&pool, id] {
      for (int i = 0; i < 500; ++i) {
        const auto bytes = static_cast<std::size_t>(1 + i * 37 % 5000);
        const Buffer a = pool.take(bytes);
        std::memset(a.data(), id, a.size());
        const Buffer b = pool.take(bytes);
        std::memset(b.data(), id + 100, b.size());
        ASSERT_EQ(a.bytes().front(), static_cast<std::byte>(id));
        ASSERT_EQ(a.bytes().back(), static_cast<std::byte>(id));
        if (i % 100 == 0) {
          pool.trim();
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  const auto stats = pool.stats();
  EXPECT_EQ(stats.live_buffers, 0u);
  EXPECT_EQ(stats.live_bytes, 0u);
  EXPECT_EQ(stats.hits + stats.misses, 4000u);
  EXPECT_LE(stats.cached_bytes, std::size_t{64} << 10);
}

TEST(BufferPool, ABufferMayDieOnAnotherThread) {
  BufferPool pool;
  Buffer buffer = pool.take(1000);
  std::memset(buffer.data(), 1, buffer.size());
  std::thread([taken = std::move(buffer)] { EXPECT_EQ(taken.size(), 1000u); }).join();
  EXPECT_EQ(pool.stats().cached_buffers, 1u);
}

}  // namespace
}  // namespace trireme
