// Variables as values: what is accepted, and that each error names the variable.
#include "trireme/core/environment.h"

#include <cstdlib>
#include <limits>

#include <gtest/gtest.h>

#include "trireme/core/error.h"
#include "trireme/testing/message.h"

namespace trireme {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::message_of;

Environment with(std::string value) {
  return Environment{{"X", std::move(value)}};
}

TEST(Environment, FindsWhatIsSetAndNothingElse) {
  const Environment env{{"A", "1"}, {"B", ""}};
  EXPECT_EQ(env.find("A"), "1");
  EXPECT_EQ(env.find("B"), "");
  EXPECT_EQ(env.find("C"), std::nullopt);
  EXPECT_TRUE(env.has("B"));
  EXPECT_FALSE(env.has("C"));
}

TEST(Environment, ReadsTheProcess) {
  ASSERT_EQ(setenv("TRIREME_ENVIRONMENT_TEST", "a=b", 1), 0);
  const auto env = Environment::of_process();
  unsetenv("TRIREME_ENVIRONMENT_TEST");
  EXPECT_EQ(env.find("TRIREME_ENVIRONMENT_TEST"), "a=b");
  EXPECT_FALSE(Environment::of_process().has("TRIREME_ENVIRONMENT_TEST"));
}

TEST(Environment, NamesTheVariableThatIsMissing) {
  const Environment env;
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { env.integer("RANK", 0, 7); }),
      "[core] expected RANK to be a whole number from 0 to 7, got none: it is not set; "
      "set it, "
      "or "
      "start the program with a launcher that does");
  EXPECT_EQ(
      message_of<InvalidArgument>([&] { env.string("HOST"); }),
      "[core] expected HOST to be some text, got none: it is not set; set it, or start "
      "the "
      "program with a launcher that does");
}

TEST(Environment, NamesTheVariableAndTheValueThatIsWrong) {
  EXPECT_EQ(
      message_of<InvalidArgument>([] { with("4 ").integer("X", 0, 7); }),
      "[core] expected X to be a whole number from 0 to 7, got \"4 \"; correct it or "
      "unset "
      "it");
}

TEST(Environment, EscapesTheValueInMessages) {
  const std::string what =
      message_of<InvalidArgument>([] { with("1\n\x1b[2J").integer("X", 0, 7); });
  EXPECT_NE(what.find("\"1\\n\\x1b[2J\""), std::string::npos) << what;
}

TEST(Environment, ReadsIntegersUpToBothLimits) {
  using Limits = std::numeric_limits<std::int64_t>;
  EXPECT_EQ(with("0").integer("X", 0, 7), 0);
  EXPECT_EQ(with("7").integer("X", 0, 7), 7);
  EXPECT_EQ(with("-3").integer("X", -3, 7), -3);
  EXPECT_EQ(with("007").integer("X", 0, 7), 7);
  EXPECT_EQ(with("9223372036854775807").integer("X", 0, Limits::max()), Limits::max());
}

TEST(Environment, RejectsWhatIsNoInteger) {
  for (const char* value :
       {"",
        " ",
        "x",
        "1x",
        " 1",
        "1 ",
        "1\n",
        "+1",
        "0x1",
        "1.0",
        "1e1",
        "--1",
        "8",
        "-1",
        "9223372036854775808",
        "99999999999999999999999"}) {
    EXPECT_THROW(with(value).integer("X", 0, 7), InvalidArgument) << value;
    EXPECT_THROW(with(value).integer_or("X", 5, 0, 7), InvalidArgument) << value;
  }
}

TEST(Environment, FallsBackOnlyWhenNotSet) {
  EXPECT_EQ(Environment().integer_or("X", 5, 0, 7), 5);
  EXPECT_EQ(with("6").integer_or("X", 5, 0, 7), 6);
}

TEST(Environment, RejectsAnEmptyString) {
  EXPECT_EQ(with(" a b").string("X"), " a b");
  EXPECT_EQ(
      message_of<InvalidArgument>([] { with("").string("X"); }),
      "[core] expected X to be some text, got \"\"; correct it or unset it");
}

TEST(Environment, ReadsSecondsWithDecimals) {
  const auto read = [](const char* value) {
    return with(value).seconds_or("X", seconds(1), seconds(100));
  };
  EXPECT_EQ(read("90"), seconds(90));
  EXPECT_EQ(read("0.25"), milliseconds(250));
  EXPECT_EQ(read(".5"), milliseconds(500));
  EXPECT_EQ(read("100"), seconds(100));
  EXPECT_EQ(read("0.00001"), milliseconds(1)) << "never rounded down to nothing";
  EXPECT_EQ(Environment().seconds_or("X", seconds(1), seconds(100)), seconds(1));
}

TEST(Environment, RejectsWhatIsNoTime) {
  for (const char* value :
       {"",
        "0",
        "0.0",
        "-1",
        "100.001",
        "1s",
        " 1",
        "1 ",
        "1e1",
        "inf",
        "nan",
        "+1",
        "1,5"}) {
    EXPECT_THROW(with(value).seconds_or("X", seconds(1), seconds(100)), InvalidArgument)
        << value;
  }
  EXPECT_EQ(
      message_of<InvalidArgument>(
          [] { with("soon").seconds_or("X", seconds(1), seconds(100)); }),
      "[core] expected X to be seconds above 0 and at most 100, as 90 or 0.25, got "
      "\"soon\"; correct it or unset it");
}

TEST(Environment, ListsVariablesByPrefix) {
  const Environment env{
      {"TRIREME", "0"}, {"TRIREME_A", "1"}, {"TRIREME_B", "2"}, {"TRIREMF", "3"}};
  const Environment::Variables expected{{"TRIREME_A", "1"}, {"TRIREME_B", "2"}};
  EXPECT_EQ(env.with_prefix("TRIREME_"), expected);
  EXPECT_TRUE(env.with_prefix("NONE_").empty());
}

}  // namespace
}  // namespace trireme
