// What lies in front of every tensor's memory.
#pragma once
#include <cstddef>
#include <cstdint>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

#include "trireme/core/size_class.h"

namespace trireme::memory {

/// What libtorch's own allocator promises.
inline constexpr std::size_t kAlignment = kSizeClassStep;

class AccountState;
class ThreadCache;

/// The header, a cache line; the data follow it, so the pointer to them is all that is
/// needed to free a block.
struct alignas(kAlignment) Block {
  /// The next of a list, while the block waits in one.
  Block* next = nullptr;
  /// The cache that it goes back to; null: to the system.
  ThreadCache* owner = nullptr;
  /// What it is charged to, while it is in use.
  AccountState* account = nullptr;
  /// What was asked for, and what there is.
  std::size_t bytes = 0;
  std::size_t capacity = 0;
  std::size_t size_class = 0;
  /// Whether libtorch's profiler was told of it.
  bool profiled = false;

  void* data() { return this + 1; }
  static Block* of(void* data) { return static_cast<Block*>(data) - 1; }
};
static_assert(sizeof(Block) == kAlignment);

/// AddressSanitizer knows nothing of a cache: these tell it which bytes nobody may
/// touch. In other builds they do nothing.
inline void forbid_data([[maybe_unused]] Block& block) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __asan_poison_memory_region(block.data(), block.capacity);
#endif
}
inline void allow_data(
    [[maybe_unused]] Block& block, [[maybe_unused]] std::size_t bytes) noexcept {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(block.data(), bytes);
#endif
}

}  // namespace trireme::memory
