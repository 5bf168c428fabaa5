#include "trireme/launch/options.h"

#include <csignal>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::launch {
namespace {

constexpr Streams kNone{};
constexpr Streams kOut{.out = true};
constexpr Streams kErr{.err = true};
constexpr Streams kBoth{.out = true, .err = true};

TEST(StreamChoice, OneNumberIsForAllRanks) {
  const std::pair<const char*, Streams> cases[] = {
      {"0", kNone}, {"1", kOut}, {"2", kErr}, {"3", kBoth}};
  for (const auto& [value, streams] : cases) {
    const StreamChoice choice = parse_stream_choice("--tee", value);
    EXPECT_EQ(choice.of(0), streams) << value;
    EXPECT_EQ(choice.of(1000), streams) << value;
    EXPECT_EQ(choice.any(), streams.any()) << value;
  }
}

TEST(StreamChoice, AListIsForTheRanksThatItNames) {
  const StreamChoice choice = parse_stream_choice("--tee", "0:3,12:2,5:0");
  EXPECT_EQ(choice.of(0), kBoth);
  EXPECT_EQ(choice.of(1), kNone);
  EXPECT_EQ(choice.of(12), kErr);
  EXPECT_EQ(choice.of(5), kNone);
  EXPECT_TRUE(choice.any());
  EXPECT_FALSE(parse_stream_choice("--tee", "5:0").any());
}

TEST(StreamChoice, RefusesEverythingElse) {
  for (const char* value :
       {"",     "4",  "-1",    "a",    " 1",          "1 ",           "0:4",
        "0:",   ":1", ",",     "0:1,", "0:1,,1:1",    "0:1,0:2",      "3,1:1",
        "-1:1", "+1", "1:1:1", "0x1",  "99999999999", "99999999999:1"})
    try {
      parse_stream_choice("--tee", value);
      ADD_FAILURE() << "took \"" << value << "\"";
    } catch (const InvalidArgument& error) {
      const std::string what = error.what();
      EXPECT_TRUE(what.starts_with("[launch] expected --tee to be 0 (none), ")) << what;
      EXPECT_TRUE(what.ends_with(text("got \"", value, "\"; give one of these")))
          << what;
    }
}

TEST(Ending, IsGoodOnlyWithCodeZeroAndNoSignal) {
  EXPECT_TRUE(Ending{}.good());
  EXPECT_FALSE(Ending{.exit_code = 1}.good());
  EXPECT_FALSE(Ending{.signal = SIGTERM}.good());
}

TEST(Ending, HasTheCodeThatAShellWouldGive) {
  EXPECT_EQ(Ending{.exit_code = 3}.shell_code(), 3);
  EXPECT_EQ(Ending{.signal = SIGSEGV}.shell_code(), 139);
  EXPECT_EQ((Ending{.exit_code = 0, .signal = SIGKILL}.shell_code()), 137);
}

TEST(Ending, IsToldInWords) {
  EXPECT_EQ(to_string(Ending{.exit_code = 3}), "exited with code 3");
  EXPECT_EQ(to_string(Ending{.signal = SIGKILL}), "was ended by SIGKILL");
  EXPECT_EQ(
      to_string(Ending{.signal = SIGSEGV, .core_dumped = true}),
      "was ended by SIGSEGV (core dumped)");
}

TEST(SignalName, IsTheOneOfTheManuals) {
  EXPECT_EQ(signal_name(SIGINT), "SIGINT");
  EXPECT_EQ(signal_name(SIGUSR1), "SIGUSR1");
  EXPECT_EQ(signal_name(99), "signal 99");
  EXPECT_EQ(signal_name(-1), "signal -1");
}

}  // namespace
}  // namespace trireme::launch
