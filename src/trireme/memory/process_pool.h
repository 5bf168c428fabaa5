// The pool of this process, and the cache of each thread. libtorch frees memory through
// a plain function that is given nothing but the pointer, so this is the one place that
// has to be global.
#pragma once
#include "trireme/memory/pool.h"

namespace trireme::memory {

/// Never destroyed: static tensors die after everything else. It caches nothing until
/// it is given limits.
Pool& process_pool() noexcept;

/// The calling thread's cache. Plain pointers, so that they can be read for as long as
/// the thread runs; `ended` tells that the cache was left to others already, which is
/// so while thread_local and static objects are destroyed.
struct CacheOfThread {
  ThreadCache* cache = nullptr;
  bool ended = false;
};
extern thread_local constinit CacheOfThread t_cache;

/// Finds a cache for a thread that has none; null if it has ended.
ThreadCache* adopt_cache() noexcept;

inline ThreadCache* cache_for_taking() noexcept {
  ThreadCache* cache = t_cache.cache;
  return cache != nullptr ? cache : adopt_cache();
}

/// Threads that only free need none.
inline ThreadCache* cache_for_giving_back() noexcept {
  return t_cache.cache;
}

}  // namespace trireme::memory
