#include "trireme/data/permutation.h"

#include <bit>
#include <utility>

#include "trireme/core/error.h"
#include "trireme/core/mix.h"
#include "trireme/data/shuffle.h"

namespace trireme::data {
namespace {

uint64_t low_bits(uint64_t number, int bits) {
  return number & ((uint64_t{1} << bits) - 1);
}

}  // namespace

Permutation::Permutation(int64_t size, uint64_t seed, uint64_t stream)
    : size_(static_cast<uint64_t>(size)) {
  if (size < 1)
    throw InvalidArgument(text(
        "[data] expected an order of at least one item, got ",
        size,
        "; give a number above 0"));
  const int bits = std::bit_width(size_ - 1);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  SplitMix random(seed, stream);
  for (uint64_t& key : keys_)
    key = random.next();
}

uint64_t Permutation::pass(uint64_t number) const {
  uint64_t left = number >> right_bits_;
  uint64_t right = low_bits(number, right_bits_);
  int left_bits = left_bits_;
  int right_bits = right_bits_;
  for (const uint64_t key : keys_) {
    left ^= low_bits(mix(right ^ key), left_bits);
    std::swap(left, right);
    std::swap(left_bits, right_bits);
  }
  return left << right_bits | right;
}

int64_t Permutation::operator()(int64_t i) const {
  TRIREME_ASSERT(i >= 0 && static_cast<uint64_t>(i) < size_);
  // Ends: the numbers walk in a circle, which holds `i` itself.
  uint64_t number = pass(static_cast<uint64_t>(i));
  while (number >= size_)
    number = pass(number);
  return static_cast<int64_t>(number);
}

}  // namespace trireme::data
