#include "trireme/pipe/failure.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/sched/generate.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

Program program() {
  return make_program(sched::generate("1F1B", {.ranks = 2, .microbatches = 2}));
}

int position_of(const Program& p, int rank, const Action& action) {
  const auto& list = p.schedule.actions[static_cast<size_t>(rank)];
  return static_cast<int>(std::find(list.begin(), list.end(), action) - list.begin());
}

template <class Thrown>
std::string text_of(const FailedAt& at, const std::exception_ptr& error) {
  try {
    throw_failure(program(), at, error);
  } catch (const Thrown& thrown) {
    return thrown.what();
  } catch (...) {
    return "another kind";
  }
}

TEST(Failure, SaysWhoDidWhatAndShowsTheSchedule) {
  const Program p = program();
  const FailedAt at{
      .rank = 1, .position = position_of(p, 1, Action(ActionKind::Forward, 1, 1))};
  const std::string text = describe_failure(p, at, "no memory");
  EXPECT_EQ(
      text.find("[pipe] rank 1 failed at 1F1 (stage 1, microbatch 1): no memory\n"), 0U)
      << text;
  EXPECT_NE(text.find(">1F1<"), std::string::npos) << text;
}

TEST(Failure, SaysWhatWasAwaitedFromWhom) {
  const FailedAt at{
      .rank = 0,
      .position = 1,
      .awaited = Action(ActionKind::ReceiveBackward, 0, 1),
      .awaited_from = 1};
  EXPECT_EQ(
      describe_failure(program(), at, "too late")
          .find("[pipe] rank 0 waited at 0RECV_B1 for 1SEND_B1 of rank 1 (stage 0, "
                "microbatch 1): too late\n"),
      0U);
}

TEST(Failure, OurOwnKindsStay) {
  const FailedAt at{.rank = 1};
  EXPECT_NE(
      text_of<TimeoutError>(at, std::make_exception_ptr(TimeoutError("late"))),
      "another kind");
  EXPECT_NE(
      text_of<InvalidArgument>(at, std::make_exception_ptr(InvalidArgument("bad"))),
      "another kind");
  EXPECT_NE(
      text_of<NotSupported>(at, std::make_exception_ptr(NotSupported("no"))),
      "another kind");
  EXPECT_NE(
      text_of<InternalError>(at, std::make_exception_ptr(InternalError("bug"))),
      "another kind");
  EXPECT_EQ(
      text_of<PeerError>(at, std::make_exception_ptr(PeerError(7, "as it was"))),
      "as it was");
}

TEST(Failure, EverythingElseIsAPeerErrorOfThisRank) {
  const FailedAt at{.rank = 1, .members = {2, 3}};
  for (const std::exception_ptr& error :
       {std::make_exception_ptr(std::runtime_error("oops")),
        std::make_exception_ptr(
            c10::Error(c10::SourceLocation{"f", "file", 1}, "oops")),
        std::make_exception_ptr(7)})
    try {
      throw_failure(program(), at, error);
    } catch (const PeerError& thrown) {
      EXPECT_EQ(thrown.rank(), 3);
      EXPECT_EQ(std::string(thrown.what()).find("trace"), std::string::npos);
    }
}

TEST(Failure, ASubGroupHasItsOwnRanksAndTheWorldsBesideThem) {
  FailedAt at{.rank = 1, .position = 0, .members = {0, 4}};
  EXPECT_NE(
      describe_failure(program(), at, "no").find("[pipe] rank 1 (world rank 4) failed"),
      std::string::npos);
  at.awaited = Action(ActionKind::ReceiveForward, 1, 0);
  at.awaited_from = 0;
  EXPECT_NE(
      describe_failure(program(), at, "late")
          .find("rank 1 (world rank 4) waited at 1RECV_F0 for 0SEND_F0 of rank 0 ("),
      std::string::npos);
  at.members = {3, 4};
  EXPECT_NE(
      describe_failure(program(), at, "late").find(" of rank 0 (world rank 3) (stage"),
      std::string::npos);
}

}  // namespace
}  // namespace trireme::pipe
