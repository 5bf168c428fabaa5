#include "trireme/launch/child.h"

#include <csignal>

#include <gtest/gtest.h>

#include "trireme/core/error.h"

namespace trireme::launch {
namespace {

using std::chrono::milliseconds;

ChildStart shell(const std::string& script) {
  return {.command = {"sh", "-c", script}};
}

TEST(ChildProcs, KeepsBothOutputsAndTheCode) {
  const ChildResult result = run_child(shell("echo out; echo bad >&2; exit 3"));
  EXPECT_EQ(result.out, "out\n");
  EXPECT_EQ(result.err, "bad\n");
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_FALSE(result.ok());
  EXPECT_EQ(failure_text(result), "exit code 3: bad");
}

TEST(ChildProcs, SetsVariablesOnTopOfItsOwn) {
  ChildStart start = shell("echo $OAR; test -n \"$PATH\"");
  start.variables["OAR"] = "port side";
  const ChildResult result = run_child(start);
  EXPECT_EQ(result.out, "port side\n");
  EXPECT_TRUE(result.ok());
}

TEST(ChildProcs, KillsAChildThatClosesItsOutputsAndGoesOn) {
  ChildStart start = shell("exec >&- 2>&-; sleep 60");
  start.limit = milliseconds(300);
  const auto begin = std::chrono::steady_clock::now();
  const ChildResult result = run_child(start);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_TRUE(result.out_of_time);
  EXPECT_EQ(result.signal, SIGKILL);
}

TEST(ChildProcs, TakesMoreThanAPipeHolds) {
  const ChildResult result =
      run_child(shell("head -c 300000 /dev/zero >&2; head -c 300000 /dev/zero"));
  EXPECT_EQ(result.out.size(), 300000U);
  EXPECT_EQ(result.err.size(), 300000U);
  EXPECT_TRUE(result.ok());
}

TEST(ChildProcs, TellsOfSignals) {
  const ChildResult result = run_child(shell("kill -SEGV $$"));
  EXPECT_EQ(result.signal, SIGSEGV);
  EXPECT_EQ(failure_text(result), "signal 11 (Segmentation fault)");
}

TEST(ChildProcs, DoesNotWaitForEver) {
  ChildStart start = shell("echo begun; exec sleep 60");
  start.limit = milliseconds(300);
  const ChildResult result = run_child(start);
  EXPECT_TRUE(result.out_of_time);
  EXPECT_EQ(result.out, "begun\n");
  EXPECT_EQ(result.signal, SIGKILL);
  EXPECT_EQ(failure_text(result), "no answer in time");
}

TEST(ChildProcs, NotesWhenAMarkHasCome) {
  ChildStart start = shell("printf 'the fi'; sleep 0.3; echo 'rst'; sleep 0.3");
  start.mark = "first";
  const auto begin = std::chrono::steady_clock::now();
  const ChildResult result = run_child(start);
  const auto end = std::chrono::steady_clock::now();
  ASSERT_TRUE(result.marked);
  EXPECT_GT(*result.marked - begin, milliseconds(200));
  EXPECT_GT(end - *result.marked, milliseconds(200));
  start.mark = "second";
  EXPECT_FALSE(run_child(start).marked);
}

TEST(ChildProcs, IsKilledWithItsObject) {
  pid_t pid = -1;
  {
    const ChildProcess child(shell("exec sleep 60"));
    pid = child.pid();
    EXPECT_EQ(::kill(pid, 0), 0);
  }
  EXPECT_EQ(::kill(pid, 0), -1);
}

TEST(ChildProcs, NamesAProgramThatDoesNotExist) {
  try {
    run_child({.command = {"no-such-program-here"}});
    FAIL() << "it ran";
  } catch (const NotSupported& error) {
    EXPECT_NE(
        std::string(error.what()).find("no-such-program-here"), std::string::npos);
  }
}

}  // namespace
}  // namespace trireme::launch
