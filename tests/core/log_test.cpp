// Levels by module, the form of a line, and what happens with a bad TRIREME_LOG.
#include "trireme/core/log.h"

#include <cerrno>
#include <cstdlib>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme {
namespace {

// Collects lines at the given levels; puts the default back afterwards.
class Captured {
 public:
  explicit Captured(std::string_view levels) {
    set_log_levels(parse_log_levels(levels));
  }
  ~Captured() {
    set_log_levels({});
    set_log_rank(0, 0);
  }
  std::vector<std::string> lines;

 private:
  LogSinkScope scope_ =
      set_log_sink([this](std::string_view line) { lines.emplace_back(line); });
};

using Lines = std::vector<std::string>;

TEST(Log, PrintsFromItsLevelUp) {
  Captured log("warn");
  TRIREME_LOG(debug, "comm") << "a";
  TRIREME_LOG(info, "comm") << "b";
  TRIREME_LOG(warn, "comm") << "c " << 1;
  TRIREME_LOG(error, "comm") << "d";
  EXPECT_EQ(log.lines, (Lines{"[trireme comm] warn: c 1", "[trireme comm] error: d"}));
}

TEST(Log, OneModuleCanBeLouder) {
  Captured log("warn,comm=debug");
  TRIREME_LOG(debug, "comm") << "a";
  TRIREME_LOG(debug, "net") << "b";
  EXPECT_EQ(log.lines, (Lines{"[trireme comm] debug: a"}));
}

TEST(Log, OneModuleCanBeQuieter) {
  Captured log("info,net=off");
  TRIREME_LOG(error, "net") << "a";
  TRIREME_LOG(info, "comm") << "b";
  EXPECT_EQ(log.lines, (Lines{"[trireme comm] info: b"}));
}

TEST(Log, OffPrintsNothing) {
  Captured log("off");
  TRIREME_LOG(error, "comm") << "a";
  EXPECT_TRUE(log.lines.empty());
}

TEST(Log, DoesNotEvaluateWhatItDoesNotPrint) {
  Captured log("warn,net=debug");
  int calls = 0;
  const auto count = [&] { return ++calls; };
  TRIREME_LOG(info, "comm") << count();
  TRIREME_LOG(info, "net") << count();
  EXPECT_EQ(calls, 1);
}

TEST(Log, IsOneStatement) {
  Captured log("warn");
  if (log.lines.empty())
    TRIREME_LOG(warn, "comm") << "a";
  else
    TRIREME_LOG(warn, "comm") << "b";
  EXPECT_EQ(log.lines, (Lines{"[trireme comm] warn: a"}));
}

TEST(Log, NamesTheRankOfItsThread) {
  Captured log("warn");
  set_log_rank(3, 8);
  TRIREME_LOG(warn, "comm") << "a";
  std::thread([] {
    TRIREME_LOG(warn, "comm") << "b";
    set_log_rank(4, 8);
    TRIREME_LOG(warn, "comm") << "c";
  }).join();
  TRIREME_LOG(warn, "comm") << "d";
  set_log_rank(0, 0);
  TRIREME_LOG(warn, "comm") << "e";
  EXPECT_EQ(
      log.lines,
      (Lines{
          "[trireme 3/8 comm] warn: a",
          "[trireme comm] warn: b",
          "[trireme 4/8 comm] warn: c",
          "[trireme 3/8 comm] warn: d",
          "[trireme comm] warn: e"}));
}

TEST(Log, CannotBeForgedByItsMessage) {
  Captured log("warn");
  TRIREME_LOG(warn, "comm") << "a\n[trireme 0/8 comm] error: b\x1b[2J";
  EXPECT_EQ(
      log.lines,
      (Lines{"[trireme comm] warn: a\\n[trireme 0/8 comm] error: b\\x1b[2J"}));
}

TEST(Log, KeepsErrno) {
  Captured log("warn");
  errno = ENOENT;
  TRIREME_LOG(warn, "comm") << "a";
  EXPECT_EQ(errno, ENOENT);
}

TEST(Log, SurvivesASinkThatThrows) {
  set_log_levels({});
  const auto scope = set_log_sink([](std::string_view) { throw 1; });
  EXPECT_NO_THROW(TRIREME_LOG(warn, "comm") << "a");
}

TEST(Log, SinksNest) {
  Captured outer("warn");
  {
    Captured inner("warn");
    TRIREME_LOG(warn, "comm") << "a";
    EXPECT_EQ(inner.lines.size(), 1u);
  }
  EXPECT_TRUE(outer.lines.empty());
  TRIREME_LOG(warn, "comm") << "b";
  EXPECT_EQ(outer.lines, (Lines{"[trireme comm] warn: b"}));
}

TEST(Log, ManyThreadsPrintWholeLines) {
  Captured log("warn");
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back([rank] {
      set_log_rank(rank, 4);
      for (int i = 0; i < 50; ++i) {
        TRIREME_LOG(warn, "comm") << "line";
        TRIREME_LOG(info, "comm") << "never";
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  ASSERT_EQ(log.lines.size(), 200u);
  for (const std::string& line : log.lines) {
    EXPECT_TRUE(line.ends_with("/4 comm] warn: line")) << line;
  }
}

TEST(LogLevels, ParsesTheGeneralLevelAndModules) {
  const LogLevels levels = parse_log_levels("error,comm=debug,dist_autograd=off");
  EXPECT_EQ(levels.general, LogLevel::Error);
  EXPECT_EQ(levels.of("comm"), LogLevel::Debug);
  EXPECT_EQ(levels.of("dist_autograd"), LogLevel::Off);
  EXPECT_EQ(levels.of("net"), LogLevel::Error);
  EXPECT_EQ(levels.lowest(), LogLevel::Debug);
}

TEST(LogLevels, KeepsTheDefaultWhenOnlyModulesAreNamed) {
  EXPECT_EQ(parse_log_levels("comm=info").general, LogLevel::Warn);
  EXPECT_EQ(parse_log_levels("comm=info,off").general, LogLevel::Off);
}

TEST(LogLevels, KnowsEveryLevelByName) {
  for (const char* name : {"debug", "info", "warn", "error", "off"}) {
    EXPECT_STREQ(to_string(parse_log_levels(name).general), name);
  }
}

TEST(LogLevels, RejectsOtherText) {
  for (const char* value :
       {"",
        ",",
        "warn,",
        ",warn",
        "loud",
        "WARN",
        " warn",
        "warn ",
        "comm=",
        "=debug",
        "comm=loud",
        "Comm=debug",
        "co mm=debug",
        "comm=debug=info",
        "warn,info",
        "comm=debug,comm=debug",
        "warn;comm=debug",
        "2"}) {
    EXPECT_THROW(parse_log_levels(value), InvalidArgument) << value;
  }
}

TEST(LogLevels, SaysWhatIsWrong) {
  try {
    parse_log_levels("warn,comm=loud");
    FAIL() << "nothing was thrown";
  } catch (const InvalidArgument& error) {
    EXPECT_STREQ(
        error.what(),
        "[core] expected TRIREME_LOG as warn or warn,comm=debug with the levels debug, "
        "info, warn, error and off, got \"warn,comm=loud\": no level \"loud\"; correct "
        "it or unset it");
  }
}

// Each runs in a new process, where nothing has been logged yet.
class LogAtFirstUse : public ::testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

void log_and_exit(const char* variable) {
  setenv("TRIREME_LOG", variable, 1);
  TRIREME_LOG(info, "comm") << "first";
  TRIREME_LOG(warn, "comm") << "second";
  std::exit(0);
}

TEST_F(LogAtFirstUse, ReadsTheVariableAndWritesToStderr) {
  EXPECT_EXIT(
      log_and_exit("off,comm=info"),
      ::testing::ExitedWithCode(0),
      "\\[trireme comm\\] info: first\n\\[trireme comm\\] warn: second\n$");
}

TEST_F(LogAtFirstUse, WarnsOnceOfABadVariableAndUsesTheDefault) {
  EXPECT_EXIT(
      log_and_exit("loud"),
      ::testing::ExitedWithCode(0),
      "^\\[trireme core\\] warn: \\[core\\] expected TRIREME_LOG [^\n]*\"loud\"[^\n]*\n"
      "\\[trireme comm\\] warn: second\n$");
}

}  // namespace
}  // namespace trireme
