// The word on every message of a step.
#pragma once
#include <cstdint>
#include <string>

namespace trireme::pipe {

/// What the program has called; a step has the same call on all ranks.
enum class StepCall : uint8_t { Step, Evaluate, ForwardOnly, StepWithSchedule };

/// "step()", "evaluate()" and so on.
std::string to_text(StepCall call);

/// Says whose message it is, so that ranks that do not run the same step notice it.
/// Numbers are cut off to the bits that they have.
struct Stamp {
  static constexpr int64_t kStepMask = 0x3FFFFFFFF;
  static constexpr int64_t kCallMask = 0x3;
  static constexpr int64_t kCountMask = 0x3FFF;

  int64_t step = 0;
  StepCall call = StepCall::Step;
  int64_t microbatches = 0;
  int64_t microbatch = 0;

  int64_t to_word() const {
    const auto bits = [](int64_t value, int64_t mask) {
      return static_cast<uint64_t>(value & mask);
    };
    return static_cast<int64_t>(
        bits(step, kStepMask) << 30 |
        bits(static_cast<int64_t>(call), kCallMask) << 28 |
        bits(microbatches, kCountMask) << 14 | bits(microbatch, kCountMask));
  }
  static Stamp from_word(int64_t word) {
    return {
        .step = word >> 30 & kStepMask,
        .call = static_cast<StepCall>(word >> 28 & kCallMask),
        .microbatches = word >> 14 & kCountMask,
        .microbatch = word & kCountMask};
  }
  bool operator==(const Stamp&) const = default;
};

/// Which samples of the whole batch a microbatch has: what random numbers go by. Rides
/// on every forward message, since only the first stage sees the batch.
struct SampleRange {
  int64_t first = 0;
  /// 0: not known.
  int64_t count = 0;

  std::string to_bytes() const;
  /// InvalidArgument unless to_bytes() has made it.
  static SampleRange from_bytes(const std::string& bytes);
  bool operator==(const SampleRange&) const = default;
};

/// Who has sent a message, and who has got it: "rank 1".
struct StampEnds {
  std::string sender;
  std::string receiver;
};

/// Throws InvalidArgument for a message that is not the one that the receiver expects:
/// says which rank calls what.
[[noreturn]] void refuse_stamp(
    const Stamp& got, const Stamp& expected, const StampEnds& ends);

}  // namespace trireme::pipe
