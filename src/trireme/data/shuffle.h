// A random order that is the same in every program, on every machine.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace trireme::data {

/// Random numbers of 64 bits that follow from a seed and a stream (Steele, Lea and
/// Flood, "Fast splittable pseudorandom number generators", 2014). Those of std are as
/// good, but how std draws a number below a bound from them is left to each library.
///
///     SplitMix random(seed, epoch);
///     const uint64_t die = 1 + random.below(6);
class SplitMix {
 public:
  explicit SplitMix(uint64_t seed, uint64_t stream = 0);
  uint64_t next();
  /// A number below `bound`, which is at least 1; each as likely as the others.
  uint64_t below(uint64_t bound);

 private:
  uint64_t state_;
};

/// Puts `items` into a random order, each order as likely as the others.
void shuffle(std::span<size_t> items, SplitMix random);

}  // namespace trireme::data
