#include "trireme/pipe/failure.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/core/log.h"
#include "trireme/sched/generate.h"

namespace trireme::pipe {
namespace {

using sched::Action;
using sched::ActionKind;

Program two_rank_program() {
  return make_program(sched::generate("1F1B", {.ranks = 2, .microbatches = 2}));
}

int position_of(const Program& p, int rank, const Action& action) {
  const auto& list = p.schedule.actions[static_cast<size_t>(rank)];
  return static_cast<int>(std::find(list.begin(), list.end(), action) - list.begin());
}

template <class Thrown>
std::string text_of(const FailedAt& at, const std::exception_ptr& error) {
  try {
    throw_failure(two_rank_program(), at, error);
  } catch (const Thrown& thrown) {
    return thrown.what();
  } catch (...) {
    return "another kind";
  }
}

TEST(Failure, SaysWhoDidWhatAndShowsTheSchedule) {
  const Program p = two_rank_program();
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
      describe_failure(two_rank_program(), at, "too late")
          .find("[pipe] rank 0 waited at 0RECV_B1 for 1SEND_B1 of rank 1 (stage 0, "
                "microbatch 1): too late\n"),
      0U);
}

TEST(Failure, OurOwnKindsSayWhatItIsFirstAndThenWhere) {
  const FailedAt at{.rank = 1, .position = 1};
  const auto first_line = [](const std::string& text) {
    return text.substr(0, text.find('\n'));
  };
  for (const std::string& text :
       {text_of<InvalidArgument>(at, std::make_exception_ptr(InvalidArgument("bad"))),
        text_of<NotSupported>(at, std::make_exception_ptr(NotSupported("bad"))),
        text_of<InternalError>(at, std::make_exception_ptr(InternalError("bad")))}) {
    EXPECT_EQ(first_line(text), "bad");
    EXPECT_NE(text.find("\n[pipe] rank 1 failed at "), std::string::npos) << text;
    EXPECT_NE(text.find("Step "), std::string::npos) << text;
  }
  // Who waited for whom is all that there is to say of a timeout.
  EXPECT_EQ(
      text_of<TimeoutError>(at, std::make_exception_ptr(TimeoutError("late")))
          .find("[pipe] rank 1 failed at "),
      0U);
  EXPECT_EQ(
      text_of<PeerError>(at, std::make_exception_ptr(PeerError(7, "as it was"))),
      "as it was");
}

TEST(Failure, TorchsErrorStaysTorchsAndComesFirst) {
  const FailedAt at{.rank = 1, .position = 1, .members = {2, 3}};
  const auto wrong = [] { TORCH_CHECK_INDEX(false, "index 7 is out of range"); };
  std::exception_ptr error;
  try {
    wrong();
  } catch (...) {
    error = std::current_exception();
  }
  EXPECT_EQ(error_text(error), "index 7 is out of range");
  try {
    throw_failure(two_rank_program(), at, error);
  } catch (const c10::IndexError& thrown) {
    const std::string text = thrown.what();
    EXPECT_EQ(text.find("index 7 is out of range"), 0U) << text;
    EXPECT_NE(text.find("[pipe] rank 1 (world rank 3) failed at "), std::string::npos)
        << text;
  } catch (...) {
    FAIL() << "another kind";
  }
}

TEST(Failure, AForeignExceptionIsThrownAsItIs) {
  struct Own : std::runtime_error {
    using std::runtime_error::runtime_error;
  };
  std::vector<std::string> lines;
  const auto sink =
      set_log_sink([&](std::string_view line) { lines.emplace_back(line); });
  const FailedAt at{.rank = 1, .position = 1};
  EXPECT_EQ(text_of<Own>(at, std::make_exception_ptr(Own("oops"))), "oops");
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("rank 1 failed at "), std::string::npos) << lines[0];
  EXPECT_THROW(throw_failure(two_rank_program(), at, std::make_exception_ptr(7)), int);
  EXPECT_EQ(
      error_text(std::make_exception_ptr(7)), "something that is no std::exception");
}

TEST(Failure, ASubGroupHasItsOwnRanksAndTheWorldsBesideThem) {
  FailedAt at{.rank = 1, .position = 0, .members = {0, 4}};
  EXPECT_NE(
      describe_failure(two_rank_program(), at, "no")
          .find("[pipe] rank 1 (world rank 4) failed"),
      std::string::npos);
  at.awaited = Action(ActionKind::ReceiveForward, 1, 0);
  at.awaited_from = 0;
  EXPECT_NE(
      describe_failure(two_rank_program(), at, "late")
          .find("rank 1 (world rank 4) waited at 1RECV_F0 for 0SEND_F0 of rank 0 ("),
      std::string::npos);
  at.members = {3, 4};
  EXPECT_NE(
      describe_failure(two_rank_program(), at, "late")
          .find(" of rank 0 (world rank 3) (stage"),
      std::string::npos);
}

}  // namespace
}  // namespace trireme::pipe
