// The free blocks of one thread. Its owner takes and gives without a lock; blocks that
// other threads free wait in a list until the owner finds a bin empty. A cache outlives
// its thread, because blocks name it: the next new thread takes it over.
#pragma once
#include <atomic>
#include <cstdint>

#include "trireme/memory/bins.h"
#include "trireme/memory/owner_gate.h"

namespace trireme::memory {

class ThreadCache {
 public:
  /// What a cache may have changed without the total having heard of it.
  static constexpr std::int64_t kReportStep = 1 << 20;

  /// `total` is what all caches hold together.
  explicit ThreadCache(std::atomic<std::int64_t>& total) : total_(total) {}

  // -- the owner

  /// A block of this class, or null; counts an allocation.
  Block* pop(std::size_t size_class) noexcept {
    gate.enter();
    Block* block = bins_.pop(size_class, count(allocations_));
    if (block != nullptr) {
      count(hits_);
      add_cached(-static_cast<std::int64_t>(block->capacity));
    }
    gate.leave();
    return block;
  }

  /// As pop(), after looking through what others have freed; a second try, so it counts
  /// no allocation.
  Block* pop_after_collecting(std::size_t size_class) noexcept;

  void push(Block& block) noexcept {
    gate.enter();
    bins_.push(block, allocations());
    add_cached(static_cast<std::int64_t>(block.capacity));
    gate.leave();
  }

  /// A block that was not needed for longest, or null.
  Block* pop_oldest() noexcept;

  // -- any thread

  void push_from_elsewhere(Block& block) noexcept;

  /// What it holds, of which the total knows a part.
  std::int64_t cached() const noexcept { return load(cached_); }
  std::int64_t reported() const noexcept { return load(reported_); }
  std::int64_t unreported() const noexcept { return load(cached_) - load(reported_); }
  std::int64_t allocations() const noexcept { return load(allocations_); }
  std::int64_t hits() const noexcept { return load(hits_); }

  // -- a visitor of the gate, or the owner

  /// Everything, as a list that ends with `rest`.
  Block* take_all(Block* rest) noexcept;
  /// Puts what others have freed into the bins.
  void collect() noexcept;
  /// After a fork(): blocks that other threads were giving back just then are lost.
  void drop_uncollected() noexcept { elsewhere_.store(nullptr); }
  /// After a fork() at an unknown state of the bins: their blocks are lost.
  void drop_all() noexcept;

  /// Bytes that its owner could not keep because of other threads'; the owner's.
  std::int64_t denied = 0;
  OwnerGate gate;
  /// Whether a thread uses it. Changes under the pool's lock.
  std::atomic<bool> owned{true};
  /// The next cache of the pool.
  ThreadCache* next = nullptr;

 private:
  using Counter = std::atomic<std::int64_t>;
  static std::int64_t load(const Counter& counter) noexcept {
    return counter.load(std::memory_order_relaxed);
  }
  // Only one thread at a time writes, so that this needs no locked instruction.
  static std::int64_t count(Counter& counter, std::int64_t change = 1) noexcept {
    const std::int64_t now = load(counter) + change;
    counter.store(now, std::memory_order_relaxed);
    return now;
  }
  void add_cached(std::int64_t change) noexcept {
    count(cached_, change);
    const std::int64_t news = unreported();
    if (news >= kReportStep || news <= -kReportStep) {
      report();
    }
  }
  void report() noexcept;

  Bins bins_;
  Counter allocations_{0};
  Counter hits_{0};
  Counter cached_{0};
  Counter reported_{0};
  std::atomic<std::int64_t>& total_;
  // On a line of its own: other threads write it.
  alignas(64) std::atomic<Block*> elsewhere_{nullptr};
};

}  // namespace trireme::memory
