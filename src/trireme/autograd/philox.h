// Philox 4x32-10, a random number generator without state: a number follows from a key
// and a counter (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
#pragma once
#include <array>
#include <cstdint>
#include <span>

namespace trireme::autograd {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

/// Four numbers.
PhiloxCounter philox(PhiloxCounter counter, PhiloxKey key);

/// Writes 64 numbers: those of the 16 counters (16 * group + i, sample), each of them
/// 64 bits wide, first all their first words, then all second ones, and so on.
using PhiloxGroup =
    void (*)(uint64_t key, uint64_t sample, uint64_t group, uint32_t* numbers);

/// What this machine can run, the fastest first. All give the same.
std::span<const PhiloxGroup> philox_groups();

}  // namespace trireme::autograd
