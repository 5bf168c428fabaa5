#include "trireme/memory/process_pool.h"

#include <pthread.h>
#include <utility>

namespace trireme::memory {
namespace {

// Is destroyed when its thread ends.
struct Farewell {
  ~Farewell() {
    t_cache.ended = true;
    if (ThreadCache* cache = std::exchange(t_cache.cache, nullptr)) {
      process_pool().retire(*cache);
    }
  }
};

Pool& make_process_pool() {
  static auto* pool = new Pool({});
  pthread_atfork(
      [] { pool->before_fork(t_cache.cache); },
      [] { pool->after_fork_in_parent(); },
      [] { pool->after_fork_in_child(t_cache.cache); });
  return *pool;
}

}  // namespace

thread_local constinit CacheOfThread t_cache;

Pool& process_pool() noexcept {
  static Pool& pool = make_process_pool();
  return pool;
}

ThreadCache* adopt_cache() noexcept {
  if (t_cache.ended) {
    return nullptr;
  }
  static thread_local const Farewell farewell;
  static_cast<void>(farewell);
  t_cache.cache = process_pool().adopt();
  return t_cache.cache;
}

}  // namespace trireme::memory
