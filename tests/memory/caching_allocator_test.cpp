// libtorch on the caching allocator: installing, counting, training, forks, the exit.
#include "trireme/memory/caching_allocator.h"

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/resource.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::memory {
namespace {

// Made before main() by libtorch's allocator, filled by a test and destroyed after all
// caches: a crash would be the exit code of this program.
at::Tensor g_early = at::ones({1000});
at::Tensor g_late;

class CachingAllocatorCase : public ::testing::Test {
 protected:
  CachingAllocatorCase() { install_caching_allocator(); }
  ~CachingAllocatorCase() override { install_caching_allocator(); }
  static void use_default() {
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), kAllocatorPriority);
  }
};

using CachingAllocatorUnit = CachingAllocatorCase;
using CachingAllocatorRanks = CachingAllocatorCase;
using CachingAllocatorProcs = CachingAllocatorCase;

TEST_F(CachingAllocatorUnit, IsInstalledOnlyOnce) {
  EXPECT_TRUE(caching_allocator_installed());
  c10::Allocator* first = c10::GetCPUAllocator();
  install_caching_allocator({.cache_limit_bytes = 1 << 20});
  EXPECT_EQ(c10::GetCPUAllocator(), first);
  use_default();
  EXPECT_FALSE(caching_allocator_installed());
}

TEST_F(CachingAllocatorUnit, TensorsFromBeforeStayValid) {
  use_default();
  at::Tensor early = at::full({100}, 3.0);
  install_caching_allocator();
  g_late = g_early + 1;
  EXPECT_EQ((early + early).sum().item<double>(), 600.0);
  const std::int64_t live = stats().live_bytes;
  early.reset();
  EXPECT_EQ(stats().live_bytes, live);
  at::Tensor ours = at::full({100}, 3.0);
  use_default();
  ours.reset();
  EXPECT_EQ(stats().live_bytes, live) << "each knows where it came from";
}

TEST_F(CachingAllocatorUnit, CountsToTheByte) {
  const MemoryStats before = stats();
  {
    at::Tensor a = at::empty({1000});
    EXPECT_EQ(stats().live_bytes, before.live_bytes + 4000);
    a.resize_({2000});
    EXPECT_EQ(stats().live_bytes, before.live_bytes + 8000);
  }
  at::empty({1000});
  const MemoryStats after = stats();
  EXPECT_EQ(after.live_bytes, before.live_bytes);
  EXPECT_EQ(after.allocations, before.allocations + 3);
  EXPECT_GE(after.cache_hits, before.cache_hits + 1);
  EXPECT_GE(after.peak_bytes, before.live_bytes + 12'000);
  EXPECT_GE(after.system_bytes, after.live_bytes + after.cached_bytes);
}

TEST_F(CachingAllocatorUnit, ReleasesWhatIsCached) {
  at::empty({3 << 20});
  EXPECT_GT(stats().cached_bytes, 12 << 20);
  release_cached();
  EXPECT_EQ(stats().cached_bytes, 0);
}

TEST_F(CachingAllocatorUnit, SharesAQuarterOfTheMemoryAmongTheRanks) {
  EXPECT_EQ(default_cache_limit(std::uint64_t{32} << 30, 1), std::size_t{8} << 30);
  EXPECT_EQ(default_cache_limit(std::uint64_t{32} << 30, 4), std::size_t{2} << 30);
  EXPECT_GT(default_cache_limit(0, 0), 0u);
}

// Weights and losses of some steps of a small network.
std::vector<at::Tensor> train() {
  at::manual_seed(7);
  std::vector<at::Tensor> weights = {
      at::randn({32, 64}), at::randn({64, 64}), at::randn({64, 8})};
  std::vector<at::Tensor> results;
  for (at::Tensor& weight : weights) {
    weight.mul_(0.1).requires_grad_(true);
  }
  for (int step = 0; step < 5; ++step) {
    at::Tensor h = at::randn({16, 32});
    for (const at::Tensor& weight : weights) {
      h = at::gelu(h.matmul(weight));
    }
    const at::Tensor loss = h.pow(2).mean();
    loss.backward();
    results.push_back(loss.detach());
    for (at::Tensor& weight : weights) {
      weight.data().sub_(weight.grad(), 0.1);
      weight.mutable_grad().reset();
    }
  }
  for (const at::Tensor& weight : weights) {
    results.push_back(weight.detach().clone());
  }
  return results;
}

TEST_F(CachingAllocatorUnit, TrainingGivesTheSameBits) {
  use_default();
  const auto expected = train();
  install_caching_allocator();
  train();  // now the cache is full of old numbers
  const std::int64_t live = stats().live_bytes;
  {
    const auto actual = train();
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i) {
      EXPECT_TRUE(at::equal(actual[i], expected[i])) << i;
    }
  }
  EXPECT_EQ(stats().live_bytes, live);
}

TEST_F(CachingAllocatorRanks, ThreadsTrainAsOneWould) {
  const std::int64_t live = stats().live_bytes;
  {
    std::vector<at::Tensor> sums(4);
    std::vector<std::thread> threads;
    for (std::size_t id = 0; id < sums.size(); ++id) {
      threads.emplace_back([&sums, id] {
        for (std::int64_t i = 1; i <= 200; ++i) {
          const at::Tensor one = at::full({i * 13}, 1.0 + static_cast<double>(id));
          sums[id] = i == 1 ? one.sum() : sums[id] + one.sum();
          if (i % 50 == 0) {
            release_cached();
          }
        }
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
    for (std::size_t id = 0; id < sums.size(); ++id) {
      EXPECT_EQ(
          sums[id].item<double>(),
          13.0 * 200 * 201 / 2 * (1.0 + static_cast<double>(id)));
    }
  }
  EXPECT_EQ(stats().live_bytes, live);
}

TEST_F(CachingAllocatorProcs, AnotherAllocatorWithAHigherPriorityIsAnError) {
  const auto install_too_late = [] {
    c10::SetCPUAllocator(c10::GetDefaultCPUAllocator(), kAllocatorPriority + 1);
    try {
      install_caching_allocator();
    } catch (const NotSupported& error) {
      const bool told =
          std::string(error.what())
              .starts_with(
                  "[memory] expected to install the caching allocator with "
                  "priority 10, but");
      std::_Exit(told ? 0 : 1);
    }
    std::_Exit(2);
  };
  EXPECT_EXIT(install_too_late(), testing::ExitedWithCode(0), "");
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// Sanitizers reserve terabytes themselves.
TEST_F(CachingAllocatorProcs, PressureReleasesTheCacheBeforeItIsAnError) {
  const auto fill_memory = [] {
    std::int64_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    const auto limit = static_cast<rlim_t>(pages * sysconf(_SC_PAGESIZE) + (256 << 20));
    const rlimit limits{.rlim_cur = limit, .rlim_max = limit};
    setrlimit(RLIMIT_AS, &limits);
    at::empty({160 << 20}, at::kByte);
    bool good = stats().cached_bytes >= 160 << 20;
    const at::Tensor other = at::empty({200 << 20}, at::kByte);
    good = good && stats().cached_bytes == 0;
    try {
      at::empty({200 << 20}, at::kByte);
    } catch (const c10::OutOfMemoryError&) {
      std::_Exit(good ? 0 : 1);
    }
    std::_Exit(2);
  };
  EXPECT_EXIT(fill_memory(), testing::ExitedWithCode(0), "");
}
#endif

// The exit of a whole program: thread_local tensors, the caches, then static tensors.
TEST_F(CachingAllocatorProcs, StaticTensorsDieAfterTheCaches) {
  const auto end = [] {
    alarm(60);
    thread_local at::Tensor of_thread = at::ones({100});
    static at::Tensor small = at::ones({100});
    static at::Tensor large = at::ones({4 << 20});
    static struct Last {
      // Libtorch still works when it runs.
      ~Last() {
        at::Tensor sum = small + of_other;
        of_other.reset();
      }
      at::Tensor of_other;
    } last;
    std::thread([] { last.of_other = at::ones({100}); }).join();
    std::exit(static_cast<int>(of_thread.sum().item<double>()) - 100);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(0), "");
}

TEST_F(CachingAllocatorProcs, AChildGoesOnWithItsParentsTensors) {
  const at::Tensor before = at::full({1000}, 2.0);
  const std::int64_t live = stats().live_bytes;
  const auto child = [&] {
    alarm(60);
    bool good = stats().live_bytes == live;
    const auto results = train();
    good = good && (before + before).sum().item<double>() == 4000.0;
    std::_Exit(good ? 0 : 1);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace trireme::memory
