// The word on every message of a step.
#pragma once
#include <cstdint>

namespace trireme::pipe {

/// Says whose message it is, so that ranks that do not run the same step notice it, and
/// which samples it holds. Numbers are cut off to the bits that they have.
struct Stamp {
  static constexpr int64_t kStepMask = 0xFF;
  static constexpr int64_t kCountMask = 0x3FFF;
  static constexpr int64_t kSampleMask = 0xFFFFFFF;
  /// The microbatch of a message that is about the channel: its sender moves to a
  /// larger one.
  static constexpr int64_t kMoves = kCountMask;

  int64_t step = 0;
  int64_t microbatches = 0;
  int64_t microbatch = 0;
  int64_t first_sample = 0;

  int64_t to_word() const {
    const auto bits = [](int64_t value, int64_t mask) {
      return static_cast<uint64_t>(value & mask);
    };
    return static_cast<int64_t>(
        bits(step, kStepMask) << 56 | bits(microbatches, kCountMask) << 42 |
        bits(microbatch, kCountMask) << 28 | bits(first_sample, kSampleMask));
  }
  static Stamp from_word(int64_t word) {
    return {
        .step = word >> 56 & kStepMask,
        .microbatches = word >> 42 & kCountMask,
        .microbatch = word >> 28 & kCountMask,
        .first_sample = word & kSampleMask};
  }
  bool operator==(const Stamp&) const = default;
};

}  // namespace trireme::pipe
