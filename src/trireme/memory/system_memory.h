// Where blocks come from, behind two functions, so that tests can run out of memory.
#pragma once
#include <cstddef>

namespace trireme::memory {

/// Takes memory from the system and gives it back.
struct SystemMemory {
  /// Memory aligned to kAlignment for a multiple of it, or null.
  void* (*allocate)(std::size_t bytes) noexcept;
  void (*release)(void* memory, std::size_t bytes) noexcept;
  /// Called after much was released: what the C library keeps goes to the system.
  void (*trim)() noexcept;
};

/// Small blocks from the C library; large ones as mappings of their own, in huge pages
/// where the system allows it, because it is page faults that make fresh memory slow.
SystemMemory system_memory() noexcept;

}  // namespace trireme::memory
