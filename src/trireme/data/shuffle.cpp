#include "trireme/data/shuffle.h"

#include <bit>
#include <utility>

#include "trireme/core/mix.h"

namespace trireme::data {

// The seed is mixed before the stream is added: else seed 1 of stream 2 would be seed 2
// of stream 1.
SplitMix::SplitMix(uint64_t seed, uint64_t stream)
    : state_(mix(mix(seed + kMixStep) + stream)) {}

uint64_t SplitMix::next() {
  state_ += kMixStep;
  return mix(state_);
}

uint64_t SplitMix::below(uint64_t bound) {
  // Drawing again is what makes it fair: a remainder would favour small numbers.
  const uint64_t mask = bound <= 1 ? 0 : ~uint64_t{0} >> std::countl_zero(bound - 1);
  uint64_t number = next() & mask;
  while (number >= bound)
    number = next() & mask;
  return number;
}

void shuffle(std::span<size_t> items, SplitMix random) {
  for (size_t left = items.size(); left > 1; --left)
    std::swap(items[left - 1], items[random.below(left)]);
}

}  // namespace trireme::data
