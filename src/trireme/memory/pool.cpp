#include "trireme/memory/pool.h"

#include <algorithm>
#include <new>
#include <utility>

namespace trireme::memory {
Pool::Pool(const PoolLimits& limits, const SystemMemory& system) : system_(system) {
  set_limits(limits);
}

Pool::~Pool() {
  while (caches_ != nullptr) {
    release_all(caches_->take_all(nullptr));
    delete std::exchange(caches_, caches_->next);
  }
}

void Pool::set_limits(const PoolLimits& limits) noexcept {
  // A block that fills the cache by itself would only drive out all others.
  const std::size_t largest =
      std::min({limits.largest_bytes, limits.cached_bytes, kLargestRequest});
  std::size_t classes = 0;
  while (classes < kSizeClasses && class_capacity(classes) <= largest) {
    ++classes;
  }
  cached_classes_.store(classes);
  limit_.store(
      static_cast<std::int64_t>(std::min(limits.cached_bytes, kLargestRequest)));
}

ThreadCache* Pool::adopt() noexcept {
  const std::lock_guard lock(mutex_);
  for (ThreadCache* one = caches_; one != nullptr; one = one->next) {
    if (!load(one->owned)) {
      one->owned.store(true);
      return one;
    }
  }
  auto* fresh = new (std::nothrow) ThreadCache(cached_);
  if (fresh != nullptr) {
    fresh->next = std::exchange(caches_, fresh);
  }
  return fresh;
}

void Pool::retire(ThreadCache& mine) noexcept {
  const std::lock_guard lock(mutex_);
  mine.owned.store(false);
  idle_blocks_.store(true);
}

Block* Pool::take_missed(ThreadCache& mine, std::size_t size_class) noexcept {
  Block* block = mine.pop_after_collecting(size_class);
  if (block == nullptr) {
    block = take_fresh(&mine, class_capacity(size_class));
  }
  if (block != nullptr) {
    block->owner = &mine;
    block->size_class = size_class;
  }
  return block;
}

Block* Pool::take_uncached(ThreadCache* mine, std::size_t bytes) noexcept {
  if (bytes > kLargestRequest) {
    return nullptr;
  }
  uncached_allocations_.fetch_add(1, std::memory_order_relaxed);
  return take_fresh(mine, (bytes + kAlignment - 1) / kAlignment * kAlignment);
}

Block* Pool::take_fresh(ThreadCache* mine, std::size_t capacity) noexcept {
  const std::size_t bytes = sizeof(Block) + capacity;
  void* memory = system_.allocate(bytes);
  if (memory == nullptr) {
    release_cached(mine);
    memory = system_.allocate(bytes);
  }
  if (memory == nullptr) {
    return nullptr;
  }
  system_bytes_.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  auto* block = new (memory) Block;
  block->capacity = capacity;
  return block;
}

void Pool::give_back_elsewhere(Block& block) noexcept {
  const auto capacity = static_cast<std::int64_t>(block.capacity);
  // A cache whose thread has ended would keep it for nobody. It may end just now: then
  // the block waits with the others for the next thread.
  if (block.owner == nullptr || !load(block.owner->owned) ||
      load(cached_) + capacity > load(limit_)) {
    release(block);
    return;
  }
  forbid_data(block);
  block.owner->push_from_elsewhere(block);
}

PoolStats Pool::stats() const noexcept {
  const std::lock_guard lock(mutex_);
  PoolStats stats{
      .cached_bytes = load(cached_),
      .system_bytes = load(system_bytes_),
      .allocations = load(uncached_allocations_)};
  for (const ThreadCache* one = caches_; one != nullptr; one = one->next) {
    stats.cached_bytes += one->unreported();
    stats.allocations += one->allocations();
    stats.cache_hits += one->hits();
  }
  return stats;
}

}  // namespace trireme::memory
