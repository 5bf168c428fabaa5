#include "trireme/pipe/stamp.h"

#include <cstring>

#include "trireme/core/error.h"

namespace trireme::pipe {
namespace {

std::string call_text(const Stamp& stamp) {
  return text(to_text(stamp.call), " with ", stamp.microbatches, " microbatches");
}

std::string message_text(const Stamp& stamp) {
  return text("microbatch ", stamp.microbatch, " in step ", stamp.step);
}

}  // namespace

std::string to_text(StepCall call) {
  switch (call) {
    case StepCall::Step:
      return "step()";
    case StepCall::Evaluate:
      return "evaluate()";
    case StepCall::ForwardOnly:
      return "forward_only()";
    case StepCall::StepWithSchedule:
      return "step() under a given schedule";
  }
  return "something else";
}

std::string SampleRange::to_bytes() const {
  std::string bytes(sizeof(*this), '\0');
  std::memcpy(bytes.data(), this, bytes.size());
  return bytes;
}

SampleRange SampleRange::from_bytes(const std::string& bytes) {
  SampleRange samples;
  if (bytes.size() != sizeof(samples))
    throw InvalidArgument(text(
        "[pipe] expected ",
        sizeof(samples),
        " bytes that say which samples a message holds, got ",
        bytes.size(),
        "; run the same program on all ranks"));
  std::memcpy(&samples, bytes.data(), bytes.size());
  return samples;
}

void refuse_stamp(const Stamp& got, const Stamp& expected, const StampEnds& ends) {
  const Stamp cut = Stamp::from_word(expected.to_word());
  if (got.call != cut.call || got.microbatches != cut.microbatches)
    throw InvalidArgument(text(
        "[pipe] expected ",
        ends.sender,
        " to call ",
        call_text(cut),
        ", as ",
        ends.receiver,
        " does, got ",
        call_text(got),
        "; all ranks must make the same calls with as many microbatches"));
  throw InvalidArgument(text(
      "[pipe] expected ",
      message_text(cut),
      " from ",
      ends.sender,
      ", got ",
      message_text(got),
      "; all ranks must make the same calls with as many microbatches"));
}

}  // namespace trireme::pipe
