// All caches together: who has which, where blocks come from and go to, and the limits.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

#include "trireme/memory/block.h"
#include "trireme/memory/system_memory.h"
#include "trireme/memory/thread_cache.h"

namespace trireme::memory {

struct PoolLimits {
  /// The most that all caches hold together; threads may be over it by
  /// ThreadCache::kReportStep each.
  std::size_t cached_bytes = 0;
  /// Larger blocks go back to the system at once.
  std::size_t largest_bytes = 0;
};

struct PoolStats {
  std::int64_t cached_bytes = 0;
  /// All that was taken from the system and not given back: blocks in use and cached,
  /// with their headers.
  std::int64_t system_bytes = 0;
  std::int64_t allocations = 0;
  std::int64_t cache_hits = 0;
};

/// `mine` is always the cache of the calling thread, or null: such a thread gets its
/// memory from the system.
class Pool {
 public:
  explicit Pool(const PoolLimits& limits, const SystemMemory& system = system_memory());
  /// All blocks must have been given back.
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  void set_limits(const PoolLimits& limits) noexcept;

  /// A cache for a new thread, with what a thread that has ended left in it; null when
  /// the memory is exhausted.
  ThreadCache* adopt() noexcept;
  /// The thread ends: its blocks wait for the next.
  void retire(ThreadCache& mine) noexcept;

  /// A block for 1 byte or more. When the system has no memory, all caches are released
  /// and it is asked again; null when that did not help.
  Block* take(ThreadCache* mine, std::size_t bytes) noexcept {
    const std::size_t size_class = size_class_of(bytes);
    if (mine == nullptr || size_class >= load(cached_classes_)) [[unlikely]] {
      return take_uncached(mine, bytes);
    }
    Block* block = mine->pop(size_class);
    if (block == nullptr) [[unlikely]] {
      block = take_missed(*mine, size_class);
    }
    if (block != nullptr) {
      allow_data(*block, bytes);
    }
    return block;
  }

  /// The block goes to its owner's cache, or to the system.
  void give_back(ThreadCache* mine, Block& block) noexcept {
    if (mine == nullptr || block.owner != mine) [[unlikely]] {
      give_back_elsewhere(block);
      return;
    }
    forbid_data(block);
    mine->push(block);
    if (load(cached_) + mine->unreported() > load(limit_)) [[unlikely]] {
      shrink(*mine);
    }
  }

  /// Gives the blocks of all caches to the system. (Where membarrier is forbidden, not
  /// those of other threads that still run.)
  void release_cached(ThreadCache* mine) noexcept;

  PoolStats stats() const noexcept;

  /// Around fork(): the child finds whole caches, those of threads that it does not
  /// have among them, and no lock held.
  void before_fork(ThreadCache* mine) noexcept;
  void after_fork_in_parent() noexcept;
  void after_fork_in_child(ThreadCache* mine) noexcept;

 private:
  template <class T>
  static T load(const std::atomic<T>& value) noexcept {
    return value.load(std::memory_order_relaxed);
  }
  Block* take_missed(ThreadCache& mine, std::size_t size_class) noexcept;
  Block* take_uncached(ThreadCache* mine, std::size_t bytes) noexcept;
  Block* take_fresh(ThreadCache* mine, std::size_t capacity) noexcept;
  void give_back_elsewhere(Block& block) noexcept;
  void shrink(ThreadCache& mine) noexcept;
  void release_idle() noexcept;
  void release(Block& block) noexcept;
  void release_all(Block* list) noexcept;
  bool close_gates(const ThreadCache* mine) noexcept;
  void open_gates() noexcept;

  const SystemMemory system_;
  std::atomic<std::size_t> cached_classes_{0};
  std::atomic<std::int64_t> limit_{0};
  std::atomic<bool> idle_blocks_{false};
  // Guards the list and who owns what.
  mutable std::mutex mutex_;
  ThreadCache* caches_ = nullptr;
  // What all threads write, though seldom: away from what they read every time.
  alignas(64) std::atomic<std::int64_t> cached_{0};
  std::atomic<std::int64_t> system_bytes_{0};
  std::atomic<std::int64_t> uncached_allocations_{0};
  bool gates_closed_ = false;
};

}  // namespace trireme::memory
