// How a pool gives memory back, and how it goes through a fork(): what reaches into the
// caches of other threads.
#include "trireme/memory/pool.h"

namespace trireme::memory {

// What threads have left behind goes first, then what this one has not used for
// longest: so the cache follows a program whose sizes change. If nothing is left to
// this one, others hold it all, perhaps without need: once it has been denied as much
// as the whole cache, all begin anew.
void Pool::shrink(ThreadCache& mine) noexcept {
  if (idle_blocks_.exchange(false)) {
    release_idle();
  }
  while (load(cached_) + mine.unreported() > load(limit_)) {
    Block* block = mine.pop_oldest();
    if (block == nullptr) {
      break;
    }
    mine.denied += mine.cached() == 0 ? static_cast<std::int64_t>(block->capacity) : 0;
    release(*block);
  }
  if (mine.denied > load(limit_)) {
    mine.denied = 0;
    release_cached(&mine);
  }
}

void Pool::release_idle() noexcept {
  Block* list = nullptr;
  {
    const std::lock_guard lock(mutex_);
    for (ThreadCache* one = caches_; one != nullptr; one = one->next) {
      if (!load(one->owned)) {
        list = one->take_all(list);
      }
    }
  }
  release_all(list);
}

void Pool::release_cached(ThreadCache* mine) noexcept {
  Block* list = nullptr;
  {
    const std::lock_guard lock(mutex_);
    const bool all = close_gates(mine);
    for (ThreadCache* one = caches_; one != nullptr; one = one->next) {
      if (all || one == mine || !load(one->owned)) {
        list = one->take_all(list);
      }
    }
    open_gates();
  }
  release_all(list);
  system_.trim();
}

void Pool::release(Block& block) noexcept {
  const std::size_t bytes = sizeof(Block) + block.capacity;
  allow_data(block, block.capacity);
  system_bytes_.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  system_.release(&block, bytes);
}

void Pool::release_all(Block* list) noexcept {
  while (list != nullptr) {
    Block* next = list->next;
    release(*list);
    list = next;
  }
}

// Whether all other threads are outside their caches, and stay there. Under the lock.
bool Pool::close_gates(const ThreadCache* mine) noexcept {
  for (ThreadCache* one = caches_; one != nullptr; one = one->next) {
    if (one != mine) {
      one->gate.close();
    }
  }
  if (!OwnerGate::fence_all()) {
    return false;
  }
  for (ThreadCache* one = caches_; one != nullptr; one = one->next) {
    if (one != mine) {
      one->gate.await_owner_outside();
    }
  }
  return true;
}

void Pool::open_gates() noexcept {
  for (ThreadCache* one = caches_; one != nullptr; one = one->next) {
    one->gate.open();
  }
}

void Pool::before_fork(ThreadCache* mine) noexcept {
  mutex_.lock();
  gates_closed_ = close_gates(mine);
  if (gates_closed_) {
    for (ThreadCache* one = caches_; one != nullptr; one = one->next) {
      one->collect();
    }
  }
}

void Pool::after_fork_in_parent() noexcept {
  open_gates();
  mutex_.unlock();
}

void Pool::after_fork_in_child(ThreadCache* mine) noexcept {
  std::int64_t cached = 0;
  for (ThreadCache* one = caches_; one != nullptr; one = one->next) {
    // Blocks that were pushed since before_fork(): the copy may have caught half of it.
    one->drop_uncollected();
    if (one != mine && load(one->owned)) {
      if (!gates_closed_) {
        one->drop_all();
      }
      one->gate.forget_owner();
      one->owned.store(false);
    }
    cached += one->reported();
  }
  cached_.store(cached);
  idle_blocks_.store(true);
  open_gates();
  mutex_.unlock();
}

}  // namespace trireme::memory
