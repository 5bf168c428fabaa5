#include "trireme/memory/thread_cache.h"

namespace trireme::memory {

Block* ThreadCache::pop_after_collecting(std::size_t size_class) noexcept {
  if (elsewhere_.load(std::memory_order_relaxed) == nullptr) {
    return nullptr;
  }
  gate.enter();
  collect();
  Block* block = bins_.pop(size_class, allocations());
  if (block != nullptr) {
    count(hits_);
    add_cached(-static_cast<std::int64_t>(block->capacity));
  }
  gate.leave();
  return block;
}

Block* ThreadCache::pop_oldest() noexcept {
  gate.enter();
  collect();
  Block* block = bins_.pop_oldest();
  if (block != nullptr) {
    add_cached(-static_cast<std::int64_t>(block->capacity));
  }
  gate.leave();
  return block;
}

void ThreadCache::push_from_elsewhere(Block& block) noexcept {
  // Counted here, and not when the owner collects it: that may be late.
  total_.fetch_add(
      static_cast<std::int64_t>(block.capacity), std::memory_order_relaxed);
  block.next = elsewhere_.load(std::memory_order_relaxed);
  while (!elsewhere_.compare_exchange_weak(
      block.next, &block, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

void ThreadCache::collect() noexcept {
  Block* block = elsewhere_.exchange(nullptr, std::memory_order_acquire);
  while (block != nullptr) {
    Block* next_block = block->next;
    // Both: the total has heard of it already.
    count(cached_, static_cast<std::int64_t>(block->capacity));
    count(reported_, static_cast<std::int64_t>(block->capacity));
    bins_.push(*block, allocations());
    block = next_block;
  }
}

Block* ThreadCache::take_all(Block* rest) noexcept {
  collect();
  Block* all = bins_.take_all(rest);
  cached_.store(0, std::memory_order_relaxed);
  report();
  return all;
}

void ThreadCache::drop_all() noexcept {
  drop_uncollected();
  bins_ = Bins();
  cached_.store(0, std::memory_order_relaxed);
  report();
}

void ThreadCache::report() noexcept {
  total_.fetch_add(unreported(), std::memory_order_relaxed);
  reported_.store(load(cached_), std::memory_order_relaxed);
}

}  // namespace trireme::memory
