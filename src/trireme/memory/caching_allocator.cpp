#include "trireme/memory/caching_allocator.h"

#include <algorithm>

#include <c10/core/CPUAllocator.h>

#include "trireme/core/error.h"
#include "trireme/core/launch_env.h"
#include "trireme/core/machine.h"
#include "trireme/memory/account_state.h"
#include "trireme/memory/process_pool.h"
#include "trireme/memory/torch_allocator.h"

namespace trireme::memory {
namespace {

int ranks_of_this_host() {
  try {
    return read_launch_env(Environment::of_process()).local_world_size;
  } catch (const InvalidArgument&) {
    return 1;  // whoever joins a world will say what is wrong
  }
}

}  // namespace

std::size_t default_cache_limit(std::uint64_t memory_bytes, int local_ranks) {
  constexpr std::uint64_t kUnknown = std::uint64_t{8} << 30;
  const std::uint64_t memory = memory_bytes == 0 ? kUnknown : memory_bytes;
  return memory / 4 / static_cast<std::uint64_t>(std::max(local_ranks, 1));
}

void install_caching_allocator(const CachingAllocatorOptions& options) {
  const std::size_t limit =
      options.cache_limit_bytes.has_value()
          ? *options.cache_limit_bytes
          : default_cache_limit(describe_machine().memory_bytes, ranks_of_this_host());
  process_pool().set_limits(
      {.cached_bytes = limit, .largest_bytes = options.largest_cached_bytes});
  c10::SetCPUAllocator(&torch_allocator(), kAllocatorPriority);
  if (!caching_allocator_installed()) {
    throw NotSupported(text(
        "[memory] expected to install the caching allocator with priority ",
        int{kAllocatorPriority},
        ", but another CPU allocator has a higher one; install only one of the two"));
  }
}

bool caching_allocator_installed() {
  return c10::GetCPUAllocator() == &torch_allocator();
}

MemoryStats stats() {
  const PoolStats pool = process_pool().stats();
  return {
      .live_bytes = AccountState::process().live(),
      .peak_bytes = AccountState::process().peak(),
      .cached_bytes = pool.cached_bytes,
      .system_bytes = pool.system_bytes,
      .allocations = pool.allocations,
      .cache_hits = pool.cache_hits,
  };
}

void release_cached() {
  process_pool().release_cached(cache_for_giving_back());
}

}  // namespace trireme::memory
