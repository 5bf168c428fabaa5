// A caching allocator for CPU tensors. Training allocates the same sizes step after
// step; the C library gives large blocks back to the system each time, and fetching
// them again costs page faults. A program installs it at its start; the library never
// does.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>

#include "trireme/memory/account.h"

namespace trireme::memory {

/// The limits of the cache.
struct CachingAllocatorOptions {
  /// The most memory that is kept for later, all threads together (to within 1 MiB
  /// each); 0 keeps nothing. By default a quarter of the machine's memory, shared among
  /// the ranks that the launcher has started here. When it is full, the sizes that were
  /// not used for longest go first.
  std::optional<std::size_t> cache_limit_bytes;
  /// Larger tensors get memory of their own, which goes back to the system at once.
  std::size_t largest_cached_bytes = std::size_t{4} << 30;
};

/// What the allocator holds, and how well it has done. Bytes are those that tensors
/// asked for, unless said otherwise.
struct MemoryStats {
  /// In living tensors, of all accounts; exact.
  std::int64_t live_bytes = 0;
  /// The most there was since the start or MemoryAccount::process().reset_peak(); see
  /// there how exact it is.
  std::int64_t peak_bytes = 0;
  /// Kept for later, as sizes of blocks.
  std::int64_t cached_bytes = 0;
  /// All that was taken from the system and not given back: in use, cached, rounding
  /// and headers.
  std::int64_t system_bytes = 0;
  /// How many tensors were given memory, and how many of them from the cache.
  std::int64_t allocations = 0;
  std::int64_t cache_hits = 0;
};

/// Makes libtorch take the memory of CPU tensors from a cache, from now on and in all
/// threads. Call it at the start of main(), before other threads allocate: libtorch
/// reads the allocator without a lock. Tensors that are there already stay valid. A
/// second call only sets the limits anew. NotSupported if another allocator was
/// installed with a higher priority.
///
///     int main() {
///       memory::install_caching_allocator({.cache_limit_bytes = 4ull << 30});
///       train();
///       std::cout << memory::stats().peak_bytes << " bytes at most\n";
///     }
///
/// Each thread keeps blocks of its own and needs no lock to use them again. A tensor
/// may die on any thread: its block goes back to the thread that made it. A thread that
/// ends leaves its blocks to the next that starts. fork() is allowed at any time.
/// Memory is aligned to 64 bytes and not initialised; running out of it gives
/// c10::OutOfMemoryError, after everything cached was released.
void install_caching_allocator(const CachingAllocatorOptions& options = {});

/// Whether libtorch uses it now.
bool caching_allocator_installed();

/// The whole process; all zero without the allocator. For one rank's share see
/// MemoryAccount.
MemoryStats stats();

/// Gives everything that is cached back to the system, also what other threads keep.
void release_cached();

/// With which priority it is installed, as c10::SetCPUAllocator counts: an allocator
/// that comes later and wants to take its place needs at least this.
inline constexpr std::uint8_t kAllocatorPriority = 10;

/// The default of cache_limit_bytes for a machine of `memory_bytes` (0: unknown) with
/// `local_ranks` processes of this job.
std::size_t default_cache_limit(std::uint64_t memory_bytes, int local_ranks);

}  // namespace trireme::memory
