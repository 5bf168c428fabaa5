#include "trireme/pipe/stamp.h"

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/check.h"

namespace trireme::pipe {
namespace {

std::string refusal(const Stamp& got, const Stamp& wanted) {
  return testing::message_of<InvalidArgument>(
      [&] { refuse_stamp(got, wanted, {.sender = "rank 0", .receiver = "rank 1"}); });
}

TEST(Stamp, FitsIntoAWord) {
  for (const StepCall call :
       {StepCall::Step,
        StepCall::Evaluate,
        StepCall::ForwardOnly,
        StepCall::StepWithSchedule}) {
    const Stamp stamp{
        .step = 17179869183, .call = call, .microbatches = 16383, .microbatch = 16382};
    EXPECT_EQ(Stamp::from_word(stamp.to_word()), stamp);
  }
}

TEST(Stamp, CutsNumbersOff) {
  const Stamp stamp{.step = 17179869184 + 3, .microbatches = 4, .microbatch = 1};
  const Stamp cut = Stamp::from_word(stamp.to_word());
  EXPECT_EQ(cut.step, 3);
  EXPECT_EQ(cut.call, StepCall::Step);
}

TEST(SampleRange, TravelsAsBytes) {
  const SampleRange samples{.first = 1LL << 40, .count = 7};
  EXPECT_EQ(SampleRange::from_bytes(samples.to_bytes()), samples);
  EXPECT_THROW(SampleRange::from_bytes("not these"), InvalidArgument);
}

TEST(Stamp, SaysWhoCallsWhat) {
  EXPECT_EQ(
      refusal(
          {.call = StepCall::Evaluate, .microbatches = 4},
          {.call = StepCall::Step, .microbatches = 4}),
      "[pipe] expected rank 0 to call step() with 4 microbatches, as rank 1 does, got "
      "evaluate() with 4 microbatches; all ranks must make the same calls with as many "
      "microbatches");
  EXPECT_TRUE(testing::contains(
      refusal({.microbatches = 4}, {.microbatches = 6}),
      "step() with 6 microbatches, as rank 1 does, got step() with 4 microbatches"));
}

TEST(Stamp, SaysWhichMessageIsMissing) {
  EXPECT_TRUE(testing::contains(
      refusal(
          {.step = 2, .microbatches = 4, .microbatch = 1},
          {.step = 2, .microbatches = 4, .microbatch = 3}),
      "expected microbatch 3 in step 2 from rank 0, got microbatch 1 in step 2; "));
}

}  // namespace
}  // namespace trireme::pipe
