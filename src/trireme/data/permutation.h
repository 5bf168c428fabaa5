// A random order of many items that takes no memory.
#pragma once
#include <array>
#include <cstdint>

namespace trireme::data {

/// A random order of `size` items, at any place at once: nothing is stored but a few
/// keys. Follows from size, seed and stream alone, so it is the same in every program,
/// on every machine.
///
///     const Permutation order(windows, seed, epoch);
///     for (int64_t i = 0; i < windows; ++i)
///       train_on(order(i));  // every window once
///
/// A Feistel network makes a bijection of the numbers of k bits, where 2^k is the first
/// power of two that is large enough; a number that comes out too large goes in again
/// until it is not (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002),
/// less than twice on average.
class Permutation {
 public:
  /// `size` is at least 1.
  Permutation(int64_t size, uint64_t seed, uint64_t stream = 0);

  int64_t size() const { return static_cast<int64_t>(size_); }
  /// The item at place `i`, which is at least 0 and below size().
  int64_t operator()(int64_t i) const;

 private:
  uint64_t pass(uint64_t number) const;

  uint64_t size_;
  int left_bits_, right_bits_;
  // An even number: a round swaps the halves. Few would do for many items; with few
  // items a round mixes little.
  std::array<uint64_t, 16> keys_{};
};

}  // namespace trireme::data
