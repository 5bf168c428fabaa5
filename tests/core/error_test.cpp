// The kinds of error, their messages, and the assertion that stays in release builds.
#include "trireme/core/error.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace trireme {
namespace {

template <class Kind>
concept CaughtAsError = std::is_base_of_v<Error, Kind>;

TEST(Error, EveryKindIsAnErrorAndARuntimeError) {
  static_assert(CaughtAsError<InvalidArgument> && CaughtAsError<NotSupported>);
  static_assert(CaughtAsError<PeerError> && CaughtAsError<TimeoutError>);
  static_assert(CaughtAsError<InternalError>);
  static_assert(std::is_base_of_v<std::runtime_error, Error>);
  EXPECT_THROW(throw NotSupported("x"), Error);
}

TEST(Error, KindsAreNotCaughtAsEachOther) {
  static_assert(!std::is_base_of_v<InvalidArgument, NotSupported>);
  static_assert(!std::is_base_of_v<PeerError, TimeoutError>);
}

TEST(Error, PeerErrorNamesTheRank) {
  try {
    throw PeerError(3, "[comm] rank 3 left");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "[comm] rank 3 left");
    ASSERT_NE(dynamic_cast<const PeerError*>(&error), nullptr);
    EXPECT_EQ(dynamic_cast<const PeerError&>(error).rank(), 3);
  }
}

TEST(Error, TextJoinsItsParts) {
  EXPECT_EQ(text("rank ", 3, " of ", 4, '!'), "rank 3 of 4!");
}

TEST(Error, ErrnoTextHasWordsAndNumber) {
  EXPECT_EQ(errno_text(ENOENT), "No such file or directory (errno 2)");
}

TEST(Error, AssertionThatHoldsDoesNothing) {
  EXPECT_NO_THROW(TRIREME_ASSERT(1 + 1 == 2));
}

TEST(Error, AssertionThatFailsNamesConditionAndPlace) {
  try {
    TRIREME_ASSERT(1 + 1 == 3);
    FAIL() << "nothing was thrown";
  } catch (const InternalError& error) {
    const std::string what = error.what();
    EXPECT_TRUE(what.starts_with("[core] expected 1 + 1 == 3 at ")) << what;
    EXPECT_NE(what.find("error_test.cpp:"), std::string::npos) << what;
  }
}

}  // namespace
}  // namespace trireme
