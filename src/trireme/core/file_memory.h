// Memory behind files that live in memory: shared segments, memfds.
#pragma once
#include <cstdint>

namespace trireme {

/// Takes memory for a range of the file, and gives how many bytes from `begin` on have
/// it: all, or fewer where the system has no more, or interrupts too often (then errno
/// says why). Many kernels undo at a signal all that one call has taken, so it goes in
/// pieces.
std::uint64_t take_file_memory(int fd, std::uint64_t begin, std::uint64_t bytes);

/// Gives the memory of a range back to the system; what lay there is 0 from now on.
void release_file_memory(int fd, std::uint64_t begin, std::uint64_t bytes);

}  // namespace trireme
